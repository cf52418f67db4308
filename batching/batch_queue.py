"""The waiting tasks of one key, and when which of them become a batch. Plain state: no threads, no clock."""

import bisect
import math
from collections import OrderedDict
from collections.abc import Hashable, Iterator

from batching.adaptive import Limits
from batching.batch import Batch, batch_of
from batching.cut import Part, cut
from batching.options import Joining, QueueOptions
from batching.task import Task

_Plan = list[tuple[Task, int]]  # tasks and how many rows of each


class BatchQueue:
    """Tasks of one key in the order in which they are to be run.

    The order is: by priority; within a priority first those whose timeout has not passed, then those that were put
    back for it; then by arrival.

    Invariants:
        - A task is in at most one queue, and ``task.queue`` says in which.
        - ``size`` is the sum of the rows that wait: of each task those that were not yet cut off.
        - Batches are taken from the front without leaving anything out, and never have more rows than
          ``max_batch_size``, except for one task that runs alone.
        - ``ready_at`` depends only on what waits, not on the present time.

    Times are seconds of one monotonic clock that the caller reads. Not thread-safe.
    """

    __slots__ = (
        "_limits",
        "_num_tasks",
        "_options",
        "_ranks",
        "_tasks",
        "expects_more",
        "joins",
        "key",
        "size",
        "taken_at",
    )

    def __init__(self, key: Hashable, options: QueueOptions, *, limits: Limits | None = None, joins: bool) -> None:
        """Create an empty queue.

        Args:
            key: the key of all of its tasks; for tasks that run alone it need not be theirs.
            options: the rules of all of its tasks.
            limits: how far batches are filled at present; None means as the options say.
            joins: whether a batch may have more than one task.
        """
        self.key = key
        self.joins = joins
        self.expects_more = True  # false once waiting for company is in vain
        self.size = 0
        self.taken_at = -math.inf
        self._options = options
        self._limits: Limits = limits or options
        self._num_tasks = 0
        self._ranks: list[int] = []  # of those that have tasks, ascending
        self._tasks: dict[int, OrderedDict[Task, None]] = {}  # by rank; none is empty

    def __len__(self) -> int:
        """Number of waiting tasks; one that was cut counts until its last rows are taken."""
        return self._num_tasks

    def __iter__(self) -> Iterator[Task]:
        """The waiting tasks in order."""
        for rank in self._ranks:
            yield from self._tasks[rank]

    def __repr__(self) -> str:
        return f"<BatchQueue {self.key!r}: {len(self)} tasks, {self.size} rows>"

    @property
    def front(self) -> tuple[int, float]:
        """Rank of the first task, and since when it has been in front; the lower, the more urgent is this queue."""
        rank = self._ranks[0]
        return rank, max(next(iter(self._tasks[rank])).queued_at, self.taken_at)

    @property
    def ready_at(self) -> float:
        """From when on a batch may be taken: at once if waiting has no use, else when a task has waited enough."""
        options, limits = self._options, self._limits
        if limits.max_queue_delay_s == 0 or not self.joins or not self.expects_more:
            return -math.inf
        if self.size >= limits.max_batch_size:
            return -math.inf
        if options.preferred_batch_size and self._preferred_size(self._plan()):
            return -math.inf
        return min(next(iter(tasks)).queued_at for tasks in self._tasks.values()) + limits.max_queue_delay_s

    def add(self, task: Task) -> bool:
        """Let a task wait; returns whether ``front`` or ``ready_at`` may have changed."""
        options = self._options
        was_full = self.size >= self._limits.max_batch_size
        was_first = self._ranks[0] if self._ranks else None
        task.queue = self
        self._append(task)
        self._num_tasks += 1
        self.size += task.size
        if was_first is None or task.rank < was_first:
            return True
        if options.preferred_batch_size and self._limits.max_queue_delay_s:
            return True
        return not was_full and self.size >= self._limits.max_batch_size

    def remove(self, task: Task) -> None:
        """Take out a task that waits here."""
        task.queue = None
        self._unlink(task)
        self._num_tasks -= 1
        self.size -= task.size - task.taken

    def put_back(self, task: Task, rank: int) -> None:
        """Move a task that waits here behind all others of another rank."""
        self._unlink(task)
        task.rank = rank
        self._append(task)

    def take(self, now: float) -> Batch:
        """Take out the tasks that are to be run next, whether or not their time has come. The queue is not empty."""
        chosen = [cut(task, rows) if rows < task.size else task for task, rows in self._choose()]
        for task in chosen:
            self._take_out(task)
        self.taken_at = now
        return batch_of(chosen, by_rows=self.joins and self._options.joining is Joining.JOIN)

    def _choose(self) -> _Plan:
        if self.joins and self._options.joining is Joining.SHARE:
            return [(task, task.size) for task in self]
        if not self.joins:
            first = next(iter(self))
            return [(first, first.size - first.taken)]
        plan = self._plan()
        if preferred := self._preferred_size(plan):
            return _up_to(plan, preferred)
        return plan

    def _plan(self) -> _Plan:
        """The first tasks that fit together; an oversize task fills the room that is left with some of its rows."""
        plan: _Plan = []
        largest = self._options.max_batch_size
        room = self._limits.max_batch_size
        for task in self:
            rows = task.size - task.taken
            if rows > room and (plan or rows > largest):
                if room > 0 and task.size > largest:
                    plan.append((task, room))
                break
            plan.append((task, rows))
            room -= rows
        return plan

    def _preferred_size(self, plan: _Plan) -> int:
        """Rows of the largest preferred batch that the first tasks of the plan make; 0 if they make none."""
        if not self._options.preferred_batch_size:
            return 0
        size, best = 0, 0
        for _, rows in plan:
            size += rows
            if size in self._options.preferred_batch_size:
                best = size
        return best

    def _take_out(self, task: Task) -> None:
        if isinstance(task, Part):
            self.size -= task.size
            if task.whole.taken == task.whole.size:
                self.remove(task.whole)
        else:
            self.remove(task)

    def _append(self, task: Task) -> None:
        tasks = self._tasks.get(task.rank)
        if tasks is None:
            tasks = self._tasks[task.rank] = OrderedDict()
            bisect.insort(self._ranks, task.rank)
        tasks[task] = None

    def _unlink(self, task: Task) -> None:
        tasks = self._tasks[task.rank]
        del tasks[task]
        if not tasks:
            del self._tasks[task.rank]
            self._ranks.remove(task.rank)


def _up_to(plan: _Plan, size: int) -> _Plan:
    """The first entries of a plan that have so many rows together."""
    shortened: _Plan = []
    for task, rows in plan:
        if size == 0:
            break
        shortened.append((task, rows))
        size -= rows
    return shortened
