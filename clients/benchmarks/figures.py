"""What a measurement yields, and what pairs of measurements say about two contenders."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final, Self


@dataclass(frozen=True)
class Measurement:
    """One contender under one load for some seconds.

    Attributes:
        requests_per_s: answered requests, as clients count them.
        p50_ms: half of the requests took at most so long, as clients see it.
        p99_ms: 99 of 100 did.
        cpu_ms: CPU time of all processes of the server per answered request.
        rows_per_run: rows in a run of the model on average.
    """

    requests_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float
    rows_per_run: float


@dataclass(frozen=True)
class Spread:
    """The median of some values, and the least and the greatest."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of at least one value."""
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}..{self.high:.2f})"


RATIOS: Final[dict[str, Callable[[Measurement], float]]] = {
    "requests/s": lambda measurement: measurement.requests_per_s,
    "p50": lambda measurement: measurement.p50_ms,
    "p99": lambda measurement: measurement.p99_ms,
    "CPU per request": lambda measurement: measurement.cpu_ms,
}
"""The figures that are compared, by the heading of their column."""


def medians(measurements: Sequence[Measurement]) -> Measurement:
    """Return the median of each figure on its own."""
    return Measurement(
        *(statistics.median(getattr(one, field.name) for one in measurements) for field in fields(Measurement))
    )


def ratios(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> dict[str, Spread]:
    """Compare two contenders pair by pair.

    The two of a pair were measured one right after the other, so that what disturbs the machine for longer disturbs
    both; their ratio is steadier than either.

    Args:
        ours: a measurement per round.
        theirs: the other contender's in the same rounds, at least one.

    Returns:
        The spread of ours divided by theirs over the rounds, for each of ``RATIOS``.
    """
    return {
        heading: Spread.of([figure(mine) / figure(other) for mine, other in zip(ours, theirs, strict=True)])
        for heading, figure in RATIOS.items()
    }


def p50_differences(ours: Sequence[Measurement], theirs: Sequence[Measurement]) -> Spread:
    """Return by how many milliseconds our median latency is above theirs, pair by pair as in ``ratios``."""
    return Spread.of([mine.p50_ms - other.p50_ms for mine, other in zip(ours, theirs, strict=True)])
