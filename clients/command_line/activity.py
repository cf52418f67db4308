"""What a signature did between two looks at the server."""

from dataclasses import dataclass

from clients.command_line.metrics import Key
from clients.command_line.observation import Counters, Observation


@dataclass(frozen=True)
class Activity:
    """One line of ``signet status``; None where it is not known or nothing was done.

    Attributes:
        model: the model's name.
        version: its number.
        signature: empty where the server names none.
        waiting: requests that wait for a run.
        requests: answered since the load.
        failed: failed since the load.
        rows: of the answered requests since the load.
        runs: of the model since the load.
        requests_per_s: answers a second since the look before.
        rows_per_run: mean batch since the look before, or since the load; likewise those below.
        mean_queue_ms: wait of a request.
        mean_ms: time of a request in the server.
        p50_ms: half of the requests took no longer.
        p99_ms: 99 of 100 requests took no longer.
    """

    model: str
    version: str
    signature: str
    waiting: int | None
    requests: int
    failed: int
    rows: int
    runs: int
    requests_per_s: float | None
    rows_per_run: float | None
    mean_queue_ms: float | None
    mean_ms: float | None
    p50_ms: float | None
    p99_ms: float | None


def activities(before: Observation | None, now: Observation) -> list[Activity]:
    """Return what every signature did since the look before, or since its load where there was none."""
    return [_activity(before, now, key) for key in now.counters]


def _activity(before: Observation | None, now: Observation, key: Key) -> Activity:
    total, recent = now.counters[key], now.counters[key]
    metrics = now.metrics.get(key)
    spread = metrics.spread if metrics else None
    if before is not None:
        recent = total - before.counters.get(key, Counters())
        if spread and key in before.metrics:
            spread = spread - before.metrics[key].spread
    model, version, signature = key
    return Activity(
        model=model,
        version=version,
        signature=signature,
        waiting=metrics.waiting if metrics else None,
        requests=total.requests,
        failed=total.failed,
        rows=total.rows,
        runs=total.runs,
        requests_per_s=recent.requests / (now.at_s - before.at_s) if before else None,
        rows_per_run=recent.rows_per_run,
        mean_queue_ms=recent.mean_queue_ms,
        mean_ms=recent.mean_ms,
        p50_ms=spread.percentile_ms(50) if spread else None,
        p99_ms=spread.percentile_ms(99) if spread else None,
    )
