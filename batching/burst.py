"""Tasks that one thread submits one right after the other."""

from batching.scheduler import BatchScheduler
from batching.task import Task


class Burst:
    """Submits tasks to any schedulers without waking anybody, and then lends these a hand.

    So all tasks of a burst are there when the first batch is taken, and quick ones need no other thread. Everything is
    for one thread, which may use a burst again and again.
    """

    __slots__ = ("_schedulers",)

    def __init__(self) -> None:
        self._schedulers: dict[BatchScheduler, None] = {}

    def __bool__(self) -> bool:
        """Whether there is something to run."""
        return bool(self._schedulers)

    def submit(self, scheduler: BatchScheduler, task: Task) -> None:
        """Let a scheduler take a task; ``run`` must follow. Raises as ``BatchScheduler.submit`` does."""
        scheduler.submit(task, wake=False)
        self._schedulers[scheduler] = None

    def run(self) -> None:
        """Run what is quick in this thread, and leave the rest to the workers."""
        schedulers, self._schedulers = self._schedulers, {}
        for scheduler in schedulers:
            scheduler.help()
