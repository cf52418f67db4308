"""A histogram of latencies, in steps that grow, for the terminal and for charts."""

from dataclasses import dataclass
from typing import Final

import numpy as np

_BINS: Final = 16
_WIDTH: Final = 40


@dataclass(frozen=True)
class Bin:
    """Latencies from ``low_ms`` to ``high_ms``, and how many there were."""

    low_ms: float
    high_ms: float
    count: int


def histogram(latencies_ms: np.ndarray) -> list[Bin]:
    """Return the bins of at least one positive latency; every latency lies in one of them."""
    low, high = float(latencies_ms.min()), float(latencies_ms.max())
    edges = np.geomspace(low, max(high, low * 1.01), _BINS + 1)
    edges[0], edges[-1] = low, max(high, edges[-1])  # geomspace rounds
    counts, _ = np.histogram(latencies_ms, edges)
    return [Bin(float(a), float(b), int(count)) for a, b, count in zip(edges, edges[1:], counts, strict=False)]


def bars(bins: list[Bin]) -> str:
    """Return the bins as lines of text."""
    most = max(each.count for each in bins)
    return "\n".join(
        f"{each.low_ms:9.2f} to {each.high_ms:9.2f} ms {each.count:8,} {'█' * round(_WIDTH * each.count / most)}"
        for each in bins
    )
