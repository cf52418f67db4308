"""The waiting tasks of one key, and when which of them become a batch. Plain state: no threads, no clock."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator

from batching.batch import Batch, batch_of
from batching.cut import Part, cut
from batching.options import Joining, QueueOptions
from batching.task import Task

_AT_ONCE = float("-inf")


class BatchQueue:
    """Tasks of one key in order of arrival.

    Invariants:
        - A task is in at most one queue, and ``task.queue`` says in which.
        - ``size`` is the sum of the rows that wait: of each task those that were not yet cut off.
        - Only the first task can have been cut.
        - Batches are taken from the front without leaving anything out, and never have more rows than
          ``max_batch_size``, except for one task that runs alone.
        - ``ready_at`` never depends on the present time, only on what waits.

    Times are seconds of one monotonic clock that the caller reads. Not thread-safe.
    """

    __slots__ = ("_options", "_tasks", "joins", "key", "size", "taken_at")

    def __init__(self, key: Hashable, options: QueueOptions, *, joins: bool) -> None:
        """Create an empty queue.

        Args:
            key: the key of all of its tasks; for tasks that run alone it need not be theirs.
            options: the rules of all of its tasks.
            joins: whether a batch may have more than one task.
        """
        self.key = key
        self.joins = joins
        self.size = 0
        self.taken_at = float("-inf")
        self._options = options
        self._tasks: OrderedDict[Task, None] = OrderedDict()

    def __len__(self) -> int:
        """Number of waiting tasks; one that was cut counts until its last rows are taken."""
        return len(self._tasks)

    def __iter__(self) -> Iterator[Task]:
        """The waiting tasks in order."""
        return iter(self._tasks)

    def __repr__(self) -> str:
        return f"<BatchQueue {self.key!r}: {len(self)} tasks, {self.size} rows>"

    @property
    def since(self) -> float:
        """When the first task came to the front: when it was submitted, or when those before it were taken."""
        return max(self._first().queued_at, self.taken_at)

    @property
    def ready_at(self) -> float:
        """From when on a batch may be taken: at once if it cannot grow, else when the first task has waited enough."""
        delay_s = self._options.max_queue_delay_s
        if delay_s == 0 or not self.joins or self.size >= self._options.max_batch_size:
            return _AT_ONCE
        return self._first().queued_at + delay_s

    def add(self, task: Task) -> bool:
        """Append a task; returns whether ``since`` or ``ready_at`` may have changed."""
        was_full = self.size >= self._options.max_batch_size
        task.queue = self
        self._tasks[task] = None
        self.size += task.size
        return len(self._tasks) == 1 or (not was_full and self.size >= self._options.max_batch_size)

    def remove(self, task: Task) -> None:
        """Take out a task that waits here."""
        task.queue = None
        del self._tasks[task]
        self.size -= task.size - task.taken

    def take(self, now: float) -> Batch:
        """Take out the tasks that are to be run next, whether or not their time has come. The queue is not empty."""
        chosen = self._choose()
        for task in chosen:
            self._take_out(task)
        self.taken_at = now
        return batch_of(chosen, by_rows=self.joins and self._options.joining is Joining.JOIN)

    def _choose(self) -> list[Task]:
        """The first tasks that fit together; an oversize task fills the room that is left with a part of it."""
        if not self.joins:
            first = self._first()
            return [cut(first, first.size - first.taken) if first.taken else first]
        if self._options.joining is Joining.SHARE:
            return list(self._tasks)
        chosen: list[Task] = []
        room = self._options.max_batch_size
        for task in self._tasks:
            rows = task.size - task.taken
            if rows > room:
                if room > 0 and task.size > self._options.max_batch_size:
                    chosen.append(cut(task, room))
                break
            chosen.append(cut(task, rows) if task.taken else task)
            room -= rows
        return chosen

    def _take_out(self, task: Task) -> None:
        if isinstance(task, Part):
            self.size -= task.size
            if task.whole.taken == task.whole.size:
                self.remove(task.whole)
        else:
            self.remove(task)

    def _first(self) -> Task:
        return next(iter(self._tasks))
