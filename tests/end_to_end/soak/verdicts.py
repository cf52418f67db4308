"""What a soak must show, told from what was counted and from samples of the server's process."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

TENTHS = 10
MOST_DRIFT = 0.05
"""By how much the throughput of the last tenth may differ from that of the first."""
MOST_BYTES = 1000
"""By which the process may grow for each request."""
FLAT_MIB = 10
"""By which it may still grow within the last three tenths; the allocator's arenas move by as much."""
SPARE = 3
"""Threads and descriptors of a model that is being loaded anew or was just replaced, and of new connections."""


@dataclass(frozen=True)
class Sample:
    """The server at one moment: seconds since the start, requests that had their outcome, and its process."""

    at_s: float
    requests: int
    resident_bytes: int
    descriptors: int
    threads: int
    cpu_s: float


@dataclass(frozen=True)
class Finding:
    what: str
    wanted: str
    seen: str
    holds: bool


def findings(outcomes: Mapping[str, int], expected: Sequence[str], samples: Sequence[Sample]) -> list[Finding]:
    """Return everything that a soak has to show.

    Args:
        outcomes: how often each came.
        expected: those that a good server brings; any other is an error.
        samples: from the beginning to the end, many in each tenth.
    """
    others = {outcome: count for outcome, count in outcomes.items() if outcome not in expected}
    wrong, lost = others.pop("wrong", 0), others.pop("lost", 0)
    told = ", ".join(f"{count:,} {outcome}" for outcome, count in sorted(others.items())) or "0"
    return [
        Finding("wrong rows", "0", f"{wrong:,}", wrong == 0),
        Finding("lost requests", "0", f"{lost:,}", lost == 0),
        Finding("errors that nothing called for", "0", told, not others),
        *_of_process(samples),
    ]


def _of_process(samples: Sequence[Sample]) -> list[Finding]:
    rates = rates_by_tenth(samples)
    drift = rates[-1] / rates[0] - 1
    resident = medians_by_tenth(samples, "resident_bytes")
    slope = np.polyfit([each.requests for each in samples], [each.resident_bytes for each in samples], 1)[0]
    growth_mib = (resident[-1] - resident[-3]) / 2**20
    return [
        Finding(
            "throughput of the last tenth beside the first",
            f"within {MOST_DRIFT:.0%}",
            f"{rates[-1]:,.0f}/s beside {rates[0]:,.0f}/s: {drift:+.1%}",
            abs(drift) <= MOST_DRIFT,
        ),
        Finding("resident memory, by request", f"below {MOST_BYTES} B", f"{slope:+,.0f} B", slope < MOST_BYTES),
        Finding(
            "resident memory in the last three tenths",
            f"at most {FLAT_MIB:+d} MiB",
            f"{growth_mib:+.1f} MiB, {resident[-1] / 2**20:,.0f} MiB in the end",
            growth_mib <= FLAT_MIB,
        ),
        *(_flat(samples, name) for name in ("descriptors", "threads")),
    ]


def _flat(samples: Sequence[Sample], name: str) -> Finding:
    by_tenth = medians_by_tenth(samples, name)
    growth = by_tenth[-1] - by_tenth[0]
    seen = f"{by_tenth[0]:.0f} in the first tenth, {by_tenth[-1]:.0f} in the last"
    return Finding(name, f"at most {SPARE:+d}", seen, growth <= SPARE)


def rates_by_tenth(samples: Sequence[Sample]) -> np.ndarray:
    """Return the requests a second in each tenth of the time."""
    return np.diff(_at_bounds(samples, "requests")) / np.diff(_bounds(samples))


def medians_by_tenth(samples: Sequence[Sample], name: str) -> list[float]:
    """Return the median of a quantity in each tenth of the time."""
    bounds = _bounds(samples)
    return [
        float(np.median([getattr(each, name) for each in samples if begin <= each.at_s <= end]))
        for begin, end in pairwise(bounds)
    ]


def _bounds(samples: Sequence[Sample]) -> np.ndarray:
    return np.linspace(samples[0].at_s, samples[-1].at_s, TENTHS + 1)


def _at_bounds(samples: Sequence[Sample], name: str) -> np.ndarray:
    return np.interp(_bounds(samples), [each.at_s for each in samples], [getattr(each, name) for each in samples])
