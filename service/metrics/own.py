"""The families that say more than Triton's: all of them by signature, with queues, runs, drops and latencies."""

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from batching.errors import (
    BatchingError,
    DeadlineError,
    OversizeError,
    QueueFullError,
    QueueTimeoutError,
    StoppedError,
    TaskCancelledError,
)
from service.histogram import Histogram
from service.metrics.reading import SignatureReading, VersionReading
from service.model_statistics import LATENCY_BOUNDS_NS, Statistics

_LABELS: Final = ("model", "version", "signature")

_GAUGES: Final[Sequence[tuple[str, str, Callable[[SignatureReading], float]]]] = (
    ("signet_queue_requests", "Requests that wait for a run.", lambda reading: reading.lane.queued_tasks),
    ("signet_queue_rows", "Rows of the requests that wait.", lambda reading: reading.lane.queued_rows),
    ("signet_running_requests", "Requests that run.", lambda reading: reading.running),
)

_COUNTERS: Final[Sequence[tuple[str, str, Callable[[SignatureReading], float]]]] = (
    ("signet_failed_runs", "Runs of the model that failed.", lambda reading: reading.lane.failed_runs),
    (
        "signet_retried_runs",
        "Runs of requests that had failed together with others, in smaller groups.",
        lambda reading: reading.lane.retried_runs,
    ),
)

_DROPS: Final[Sequence[tuple[str, type[BatchingError]]]] = (
    ("queue_full", QueueFullError),
    ("oversize", OversizeError),
    ("timeout", QueueTimeoutError),
    ("deadline", DeadlineError),
    ("cancelled", TaskCancelledError),
    ("stopped", StoppedError),
)

_ROW_BOUNDS: Final = tuple(2**power for power in range(13))


def families(readings: Sequence[VersionReading]) -> Iterator[Metric]:
    """Yield the families by signature."""
    load = GaugeMetricFamily(
        "signet_model_load_seconds", "How long the load took, warm-up included.", labels=_LABELS[:2]
    )
    for version in readings:
        load.add_metric(version.labels, version.load_s)
    yield load
    yield _device_runs(readings)
    signatures = [signature for reading in readings for signature in reading.signatures]
    for name, text, value_of in _GAUGES:
        gauge = GaugeMetricFamily(name, text, labels=_LABELS)
        for reading in signatures:
            gauge.add_metric(reading.labels, value_of(reading))
        yield gauge
    for name, text, value_of in _COUNTERS:
        counter = CounterMetricFamily(name, text, labels=_LABELS)
        for reading in signatures:
            counter.add_metric(reading.labels, value_of(reading))
        yield counter
    yield _compilations(signatures)
    yield _drops(signatures)
    yield _latencies(signatures)
    yield _sizes(signatures)


def _device_runs(readings: Sequence[VersionReading]) -> Metric:
    family = CounterMetricFamily(
        "signet_device_runs", "Runs of the model by device, warm-up included.", labels=(*_LABELS[:2], "device")
    )
    for reading in readings:
        for device, runs in reading.device_runs.items():
            family.add_metric((*reading.labels, device), runs)
    return family


def _compilations(signatures: Sequence[SignatureReading]) -> Metric:
    family = CounterMetricFamily(
        "signet_xla_compilations",
        "Combinations of input shapes that were run for the first time, where XLA compiles the signature or a part.",
        labels=_LABELS,
    )
    for reading in signatures:
        if reading.compilations is not None:
            family.add_metric(reading.labels, reading.compilations)
    return family


def _drops(signatures: Sequence[SignatureReading]) -> Metric:
    family = CounterMetricFamily(
        "signet_dropped_requests", "Requests that were refused or never run, by reason.", labels=(*_LABELS, "reason")
    )
    for reading in signatures:
        for reason, error in _DROPS:
            family.add_metric((*reading.labels, reason), reading.lane.drops.get(error, 0))
    return family


def _latencies(signatures: Sequence[SignatureReading]) -> Metric:
    family = HistogramMetricFamily(
        "signet_request_latency_seconds", "Whole time in the server of the requests that were answered.", labels=_LABELS
    )
    bounds = [str(bound / 1e9) for bound in LATENCY_BOUNDS_NS]
    for reading in signatures:
        statistics = reading.statistics
        family.add_metric(reading.labels, _buckets(bounds, statistics.latencies), statistics.success.ns / 1e9)
    return family


def _sizes(signatures: Sequence[SignatureReading]) -> Metric:
    """Return how many rows runs had; counted here from the exact sizes, of which there is a bounded number."""
    family = HistogramMetricFamily("signet_batch_rows", "Rows of the runs, without padding.", labels=_LABELS)
    bounds = [str(float(bound)) for bound in _ROW_BOUNDS]
    for reading in signatures:
        histogram, rows = _run_sizes(reading.statistics)
        family.add_metric(reading.labels, _buckets(bounds, histogram), rows)
    return family


def _run_sizes(statistics: Statistics) -> tuple[Histogram, int]:
    histogram, rows = Histogram(_ROW_BOUNDS), 0
    for size, compute in statistics.batches.items():
        histogram.observe(size, compute.infer.count)
        rows += size * compute.infer.count
    return histogram, rows


def _buckets(bounds: Sequence[str], histogram: Histogram) -> list[tuple[str, float]]:
    """Return the buckets as Prometheus wants them: each with what lies below its bound, the last with everything."""
    return list(zip((*bounds, "+Inf"), accumulate(histogram.counts), strict=True))
