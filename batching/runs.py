"""The batches that threads run at present. Plain state: no locks, no clock."""

import math
from collections import Counter
from dataclasses import dataclass
from typing import Final

from batching.batch import Batch
from batching.options import QueueOptions

_PATIENCE_S: Final = 0.002
"""How long what waits behind a quick batch waits for its thread, before another one is woken."""


@dataclass(slots=True)
class _Run:
    """Since when a batch runs, in which thread, and whether it should be over soon."""

    began: float
    thread: int
    is_quick: bool


class Runs:
    """At most a fixed number of batches in the hands of threads. Times are seconds of one monotonic clock."""

    __slots__ = ("_most", "_runs")

    def __init__(self, most: int) -> None:
        self._most = most
        self._runs: dict[Batch, _Run] = {}

    def __len__(self) -> int:
        """How many batches run."""
        return len(self._runs)

    @property
    def has_room(self) -> bool:
        """Whether another batch may run."""
        return len(self._runs) < self._most

    def begin(self, batch: Batch, now: float, thread: int, *, is_quick: bool) -> None:
        """Note that a thread runs a batch, which should be over soon if ``is_quick``."""
        self._runs[batch] = _Run(now, thread, is_quick)

    def end(self, batch: Batch) -> None:
        """Note that it does so no longer."""
        del self._runs[batch]

    def relief_at(self) -> float:
        """Until when the thread that runs a quick batch is waited for; the past if none does."""
        return max([run.began for run in self._runs.values() if run.is_quick], default=-math.inf) + _PATIENCE_S

    def begun_before(self, time: float) -> int:
        """How many of the batches were begun before that."""
        return sum(run.began < time for run in self._runs.values())

    def has_thread(self, thread: int) -> bool:
        """Whether a thread runs a batch."""
        return any(run.thread == thread for run in self._runs.values())

    def tasks_by_options(self) -> Counter[QueueOptions]:
        """The number of tasks in the batches of each options object."""
        tasks: Counter[QueueOptions] = Counter()
        for batch in self._runs:
            tasks[batch.options] += len(batch.tasks)
        return tasks
