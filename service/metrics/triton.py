"""The families that Triton has, under its names and with its meaning, so that dashboards made for it work."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric, UntypedMetricFamily

from service.metrics.reading import VersionReading
from service.model_statistics import FailureReason, Statistics

_LABELS: Final = ("model", "version")

_COUNTERS: Final[Sequence[tuple[str, str, Callable[[Statistics], int]]]] = (
    (
        "nv_inference_request_success",
        "Requests that were answered.",
        lambda statistics: statistics.success.count,
    ),
    (
        "nv_inference_count",
        "Rows of the requests that were answered.",
        lambda statistics: statistics.inference_count,
    ),
    (
        "nv_inference_exec_count",
        "Runs of the model, failed ones included.",
        lambda statistics: statistics.execution_count,
    ),
    (
        "nv_inference_request_duration_us",
        "Microseconds in the server, summed over the requests that were answered.",
        lambda statistics: statistics.success.ns // 1000,
    ),
    (
        "nv_inference_queue_duration_us",
        "Microseconds in the queue, summed likewise.",
        lambda statistics: statistics.queue.ns // 1000,
    ),
    (
        "nv_inference_compute_input_duration_us",
        "Microseconds of joining inputs, of the whole run for each of its requests.",
        lambda statistics: statistics.compute.input.ns // 1000,
    ),
    (
        "nv_inference_compute_infer_duration_us",
        "Microseconds of running the model, likewise.",
        lambda statistics: statistics.compute.infer.ns // 1000,
    ),
    (
        "nv_inference_compute_output_duration_us",
        "Microseconds of dividing outputs, likewise.",
        lambda statistics: statistics.compute.output.ns // 1000,
    ),
)


def families(readings: Sequence[VersionReading]) -> Iterator[Metric]:
    """Yield Triton's families.

    Its counters do not end in ``_total``, as OpenMetrics wants it of counters. So they are of unknown type here;
    ``exposition`` calls them counters where the format allows it.
    """
    for name, text, value_of in _COUNTERS:
        counter = UntypedMetricFamily(name, text, labels=_LABELS)
        for reading in readings:
            counter.add_metric(reading.labels, value_of(reading.statistics))
        yield counter
    yield _failures(readings)
    pending = GaugeMetricFamily("nv_inference_pending_request_count", "Requests that wait for a run.", labels=_LABELS)
    for reading in readings:
        pending.add_metric(reading.labels, reading.pending)
    yield pending


def _failures(readings: Sequence[VersionReading]) -> Metric:
    """Return the requests that failed after they were taken into the queue, every reason from the start."""
    family = UntypedMetricFamily(
        "nv_inference_request_failure", "Requests that were taken and failed, by reason.", labels=(*_LABELS, "reason")
    )
    for reading in readings:
        for reason in FailureReason:
            family.add_metric((*reading.labels, reason.value), reading.statistics.failures[reason])
    return family
