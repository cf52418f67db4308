"""What ModelStatistics does not tell but the metrics over HTTP do: who waits now, and how latencies are spread."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from typing import Final
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from clients.command_line.address import plain

_TIMEOUT_S: Final = 2.0
_WAITING: Final = "signet_queue_requests"
_BUCKET: Final = "signet_request_latency_seconds_bucket"
_LABELS: Final = ("model", "version", "signature")
_DEFAULT_PORT: Final = 8002

Key = tuple[str, str, str]
"""Model, version and signature."""


@dataclass(frozen=True)
class Spread:
    """Latencies of answered requests, counted in buckets.

    Attributes:
        counts: for each bound in seconds, ascending and infinite at last, the answers that took no longer.
    """

    counts: Mapping[float, float]

    def __sub__(self, before: "Spread") -> "Spread":
        """Return what came since; all of it after a reload, when counters start anew."""
        since = {bound: count - before.counts.get(bound, 0) for bound, count in self.counts.items()}
        return self if min(since.values(), default=0) < 0 else Spread(since)

    def percentile_ms(self, percent: float) -> float | None:
        """Return the latency in ms that so many percent stayed below, None without answers.

        Within a bucket answers are taken as evenly spread, as Prometheus's ``histogram_quantile`` takes them; beyond
        the last bound the last bound is returned.
        """
        wanted = max(self.counts.values(), default=0) * percent / 100
        low, below = 0.0, 0.0
        for bound, count in self.counts.items():
            if count >= wanted > 0:
                share = (wanted - below) / (count - below)
                return (low if bound == float("inf") else low + (bound - low) * share) * 1000
            low, below = bound, count
        return None


@dataclass(frozen=True)
class Metrics:
    """What the metrics tell of a signature.

    Attributes:
        waiting: requests that wait for a run.
        spread: latencies since the load.
    """

    waiting: int
    spread: Spread


def default_url(grpc_url: str) -> str | None:
    """Return where a server has its metrics that was started without options for it; None for a Unix socket."""
    host, colon, _ = plain(grpc_url).rpartition(":")
    return f"http://{host}:{_DEFAULT_PORT}/metrics" if colon and not grpc_url.startswith("unix:") else None


def read_metrics(url: str) -> dict[Key, Metrics]:
    """Return the metrics of every signature; none when nothing of the kind is there."""
    text = _fetch(url)
    waiting: dict[Key, int] = {}
    counts: defaultdict[Key, dict[float, float]] = defaultdict(dict)
    for sample in (sample for family in text_string_to_metric_families(text) for sample in family.samples):
        if sample.name in (_WAITING, _BUCKET):
            model, version, signature = (sample.labels[label] for label in _LABELS)
            if sample.name == _WAITING:
                waiting[model, version, signature] = int(sample.value)
            else:
                counts[model, version, signature][float(sample.labels["le"])] = sample.value
    return {key: Metrics(count, Spread(dict(sorted(counts[key].items())))) for key, count in waiting.items()}


def _fetch(url: str) -> str:
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", parts.path or "/metrics")
        answer = connection.getresponse()
        return answer.read().decode() if answer.status == 200 else ""
    except (OSError, HTTPException, UnicodeDecodeError):
        return ""
    finally:
        connection.close()
