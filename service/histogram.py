"""Counts of values by size, in a fixed number of buckets."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Histogram:
    """Counts values in buckets that never change. Not thread-safe.

    Attributes:
        bounds: where each bucket but the last ends, ascending; a value that equals a bound lies below it.
        counts: values in each bucket; the last one takes what is larger than every bound.
    """

    bounds: Sequence[int]
    counts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, value: int, count: int = 1) -> None:
        """Count a value that came once, or so often."""
        self.counts[bisect_left(self.bounds, value)] += count

    def observe_all(self, values: Iterable[int]) -> None:
        """Count values each of which came once."""
        counts, bounds = self.counts, self.bounds
        for value in values:
            counts[bisect_left(bounds, value)] += 1

    def add(self, other: "Histogram") -> None:
        """Add the counts of another one with the same bounds."""
        self.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts, strict=True)]
