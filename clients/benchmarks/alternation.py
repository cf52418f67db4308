"""Measures contenders in turns, so that what disturbs the machine disturbs all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from clients.benchmarks.contenders import Contender
from clients.benchmarks.figures import Measurement
from clients.benchmarks.scenarios import Load
from clients.benchmarks.variants import Computing


@dataclass(frozen=True)
class Series:
    """One contender under one load: a measurement per round.

    Attributes:
        contender: its label.
        computing: how it computes.
        load: the load's label.
        concurrency: callers.
        measurements: in the order of the rounds.
    """

    contender: str
    computing: Computing
    load: str
    concurrency: int
    measurements: tuple[Measurement, ...]


def alternate(
    contenders: Sequence[Contender],
    loads: Sequence[Load],
    concurrencies: Sequence[int],
    rounds: int,
    seconds: float,
    tell: Callable[[str], object],
) -> list[Series]:
    """Measure every contender under every load with every number of callers, once per round.

    Every other round goes backwards (A B, B A, ...), so that a steady drift of the machine favours nobody. A round
    before the first is thrown away: first runs of a batch size cost more.

    Args:
        contenders: those of one load and number of callers are measured one right after the other.
        loads: what is sent.
        concurrencies: numbers of callers.
        rounds: how often everything is measured.
        seconds: how long each time.
        tell: called with the name of each round before it begins.
    """
    arms = [
        (concurrency, load, contender) for concurrency in concurrencies for load in loads for contender in contenders
    ]
    taken: list[list[Measurement]] = [[] for _ in arms]
    for number in range(rounds + 1):
        tell(f"round {number} of {rounds}" if number else "a round that does not count")
        places = range(len(arms)) if number % 2 else reversed(range(len(arms)))
        for place in places:
            concurrency, load, contender = arms[place]
            taken[place].append(contender.measure(load, concurrency, seconds))
    return [
        Series(contender.label, contender.computing, load.label, concurrency, tuple(measurements[1:]))
        for (concurrency, load, contender), measurements in zip(arms, taken, strict=True)
    ]


def lines(series: Sequence[Series]) -> list[list[Series]]:
    """Return for each contender and load its series, one per number of callers, in their order."""
    keys = dict.fromkeys((one.contender, one.load) for one in series)
    return [[one for one in series if (one.contender, one.load) == key] for key in keys]
