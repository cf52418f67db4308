"""Tasks that one thread submits one right after the other."""

from batching.scheduler import BatchScheduler
from batching.task import Task


class Burst:
    """Collects tasks for any schedulers, and then submits those of each together and lends it a hand.

    So all tasks of a burst are there when the first batch is made, and quick ones need no other thread. Everything is
    for one thread, which may use a burst again and again.
    """

    __slots__ = ("_tasks",)

    def __init__(self) -> None:
        self._tasks: dict[BatchScheduler, list[Task]] = {}

    def __bool__(self) -> bool:
        """Whether there is something to run."""
        return bool(self._tasks)

    def submit(self, scheduler: BatchScheduler, task: Task) -> None:
        """Let a scheduler take a task when the burst is run, which must follow."""
        tasks = self._tasks.get(scheduler)
        if tasks is None:
            self._tasks[scheduler] = [task]
        else:
            tasks.append(task)

    def run(self) -> None:
        """Submit everything, see ``BatchScheduler.submit_all``."""
        all_tasks, self._tasks = self._tasks, {}
        for scheduler, tasks in all_tasks.items():
            scheduler.submit_all(tasks)
