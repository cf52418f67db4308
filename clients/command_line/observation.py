"""What a server did up to a moment, by signature, and what it did between two moments."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clients.command_line.description import signature_names
from clients.command_line.metrics import Key, Metrics, read_metrics

_GONE: Final = {"StatusCode.NOT_FOUND", "StatusCode.INVALID_ARGUMENT", "StatusCode.UNAVAILABLE"}


@dataclass(frozen=True)
class Counters:
    """What ModelStatistics tells of a signature; times in ns, summed over requests."""

    requests: int = 0
    failed: int = 0
    rows: int = 0
    runs: int = 0
    queue_ns: int = 0
    total_ns: int = 0

    def __sub__(self, before: "Counters") -> "Counters":
        """Return what came since; all of it after a reload, when counters start anew."""
        if self.requests < before.requests:
            return self
        return Counters(
            self.requests - before.requests,
            self.failed - before.failed,
            self.rows - before.rows,
            self.runs - before.runs,
            self.queue_ns - before.queue_ns,
            self.total_ns - before.total_ns,
        )

    @property
    def rows_per_run(self) -> float | None:
        """The mean batch."""
        return self.rows / self.runs if self.runs else None

    @property
    def mean_queue_ms(self) -> float | None:
        """Milliseconds that a request waited."""
        return self.queue_ns / self.requests / 1e6 if self.requests else None

    @property
    def mean_ms(self) -> float | None:
        """Milliseconds that a request spent in the server."""
        return self.total_ns / self.requests / 1e6 if self.requests else None


@dataclass(frozen=True)
class Version:
    """One line of the repository's index.

    Attributes:
        model: its name.
        version: its number; empty for a model that was never loaded.
        state: READY, LOADING, UNLOADING, UNAVAILABLE, or empty.
        reason: why it is not ready.
    """

    model: str
    version: str
    state: str
    reason: str


@dataclass(frozen=True)
class Observation:
    """What a server told at a moment.

    Attributes:
        at_s: the moment, on the monotonic clock.
        versions: every version of every model that it knows.
        counters: by signature, of the versions that are ready; an empty signature where the server names none.
        metrics: likewise; empty when there is no HTTP port.
    """

    at_s: float
    versions: Sequence[Version]
    counters: Mapping[Key, Counters]
    metrics: Mapping[Key, Metrics]


def observe(client: InferenceServerClient, metrics_url: str | None) -> Observation:
    """Ask for everything once.

    Raises:
        InferenceServerException: the server does not answer.
    """
    metrics = read_metrics(metrics_url) if metrics_url else {}
    index = client.get_model_repository_index().models
    versions = [Version(entry.name, entry.version, entry.state, entry.reason) for entry in index]
    counters: dict[Key, Counters] = {}
    for model in sorted({entry.model for entry in versions if entry.state == "READY"}):
        known = sorted({signature for name, _, signature in metrics if name == model})
        counters |= _counters_of_model(client, model, known or [""])
    return Observation(time.monotonic(), versions, counters, metrics)


def counters_of_signature(client: InferenceServerClient, model: str, signature: str | None) -> Counters:
    """Return the counters of the version that answers requests: the highest.

    Raises:
        InferenceServerException: there is no such model or signature.
    """
    return dict(_counters(client, model, signature or "")).popitem()[1]


def _counters_of_model(client: InferenceServerClient, model: str, else_names: Sequence[str]) -> dict[Key, Counters]:
    """Return the counters by signature; the names are ``else_names`` where the server does not tell them."""
    try:
        names = signature_names(client, model) or else_names
        return dict(pair for name in names for pair in _counters(client, model, name))
    except InferenceServerException as error:
        if error.status() in _GONE:  # it was unloaded since the index was read
            return {}
        raise


def _counters(client: InferenceServerClient, model: str, signature: str) -> Iterator[tuple[Key, Counters]]:
    """Yield the counters of a signature in each version that is ready, in ascending order."""
    entries = client.get_inference_statistics(f"{model}:{signature}" if signature else model).model_stats
    for entry in sorted(entries, key=lambda entry: int(entry.version)):
        stats = entry.inference_stats
        counters = Counters(
            requests=stats.success.count,
            failed=stats.fail.count,
            rows=entry.inference_count,
            runs=entry.execution_count,
            queue_ns=stats.queue.ns,
            total_ns=stats.success.ns,
        )
        yield (model, entry.version, signature), counters
