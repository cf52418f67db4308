"""Measures contenders in turns, so that what disturbs the machine disturbs all of them."""

from collections.abc import Sequence
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
    contenders: Sequence[Contender], loads: Sequence[Load], concurrency: int, rounds: int, seconds: float
) -> list[Series]:
    """Measure every contender under every load once per round.

    Every other round goes backwards (A B, B A, ...), so that a steady drift of the machine favours nobody. A round
    before the first is thrown away: first runs of a batch size cost more.
    """
    arms = [(load, contender) for load in loads for contender in contenders]
    for load, contender in arms:
        contender.measure(load, concurrency, seconds)
    taken: list[list[Measurement]] = [[] for _ in arms]
    for number in range(rounds):
        places = range(len(arms)) if number % 2 == 0 else reversed(range(len(arms)))
        for place in places:
            load, contender = arms[place]
            taken[place].append(contender.measure(load, concurrency, seconds))
    return [
        Series(contender.label, contender.computing, load.label, concurrency, tuple(measurements))
        for (load, contender), measurements in zip(arms, taken, strict=True)
    ]
