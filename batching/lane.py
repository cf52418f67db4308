"""The waiting tasks of one signature, over all of its keys. Plain state: no threads, no clock."""

import math
from collections.abc import Hashable, Iterator
from typing import Final

from batching.batch import Batch
from batching.batch_queue import BatchQueue
from batching.errors import OversizeError, QueueFullError
from batching.mutable_heap import MutableHeap
from batching.options import Joining, Oversize, QueueOptions
from batching.task import Task

_ALONE: Final = ("alone",)
"""Key of the queue of those tasks that run alone: they need no queue per key, because they never meet in a batch."""


class Lane:
    """The queues of all tasks that carry the same options object: their limits, and their order among themselves.

    A queue per key is made when its first task comes and dropped when its last one leaves, so that keys that clients
    invent (their shapes are part of it) cost nothing once they are served.

    Invariants:
        - ``num_tasks`` and ``size`` are the sums over the queues; no queue is empty.
        - Every queue is either ready or has a time at which it will be.

    Attributes:
        options: the rules of all tasks here.
        joins: whether any tasks are joined; false for good once an output turned out not to have a row per row.
        num_tasks: tasks that wait.
        size: rows that wait.
        served_at: when a batch was last taken.
        queues: the queue of each key that has waiting tasks.
    """

    __slots__ = ("_ready", "_unready", "joins", "num_tasks", "options", "queues", "served_at", "size")

    def __init__(self, options: QueueOptions) -> None:
        self.options = options
        self.num_tasks = 0
        self.size = 0
        self.served_at = float("-inf")
        self.queues: dict[Hashable, BatchQueue] = {}
        self.joins = options.joining is not Joining.ALONE
        self._ready: MutableHeap[float, BatchQueue] = MutableHeap()
        self._unready: MutableHeap[float, BatchQueue] = MutableHeap()

    def __repr__(self) -> str:
        return f"<Lane: {self.num_tasks} tasks, {self.size} rows in {len(self.queues)} queues>"

    def add(self, task: Task, now: float) -> None:
        """Let a task wait in the queue of its key.

        Raises:
            QueueFullError: as many tasks as may wait do so already.
            OversizeError: it has more rows than a batch may have and must not be cut.
        """
        if task.size > self.options.max_batch_size and self._refuses_oversize():
            raise OversizeError(f"{task.size} rows are more than the largest batch, {self.options.max_batch_size}")
        limit = self.options.max_queue_size
        if limit and self.num_tasks >= limit:
            raise QueueFullError(f"the queue is full: {self.num_tasks} requests wait, which is the limit")
        queue = self._queue_for(task)
        self.num_tasks += 1
        self.size += task.size
        if queue.add(task):
            self._place(queue, now)

    def remove(self, task: Task, now: float) -> None:
        """Take out a task that waits here."""
        queue = task.queue
        assert queue is not None  # noqa: S101 - the caller's promise, for the type checker
        self.num_tasks -= 1
        self.size -= task.size - task.taken
        queue.remove(task)
        self._place(queue, now)

    def take(self, now: float) -> Batch:
        """Take a batch from the ready queue whose first task has stood in front for longest; there must be one."""
        ready = self._ready.first()
        assert ready is not None  # noqa: S101 - the caller's promise, for the type checker
        queue = ready[1]
        num_tasks, size = len(queue), queue.size
        batch = queue.take(now)
        self.num_tasks -= num_tasks - len(queue)
        self.size -= size - queue.size
        self.served_at = now
        self._place(queue, now)
        return batch

    def ready_since(self, now: float) -> float | None:
        """Since when a batch waits for a worker here, at most since the last one was taken; None if none is ready."""
        while (due := self._unready.first()) is not None and due[0] <= now:
            self._place(due[1], now)
        ready = self._ready.first()
        return None if ready is None else max(ready[0], self.served_at)

    def next_ready_at(self) -> float:
        """When the next batch is ready if nothing changes: in the past if one is, infinity if nothing waits."""
        if self._ready:
            return -math.inf
        due = self._unready.first()
        return math.inf if due is None else due[0]

    def stop_joining(self, now: float) -> None:
        """Run every task alone from now on."""
        self.joins = False
        for queue in list(self.queues.values()):
            queue.joins = False
            self._place(queue, now)

    def tasks(self) -> Iterator[Task]:
        """All waiting tasks."""
        for queue in self.queues.values():
            yield from queue

    def _queue_for(self, task: Task) -> BatchQueue:
        joins = self.joins and (self.options.joining is Joining.SHARE or _is_joinable(task))
        key = task.key if joins else _ALONE
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = BatchQueue(key, self.options, joins=joins)
        return queue

    def _refuses_oversize(self) -> bool:
        return self.joins and self.options.joining is Joining.JOIN and self.options.oversize is Oversize.REJECT

    def _place(self, queue: BatchQueue, now: float) -> None:
        """Put the queue among the ready ones or the others, where its first task and its size want it, or drop it."""
        self._ready.discard(queue)
        self._unready.discard(queue)
        if len(queue) == 0:
            del self.queues[queue.key]
        elif queue.ready_at <= now:
            self._ready.set(queue, queue.since)
        else:
            self._unready.set(queue, queue.ready_at)


def _is_joinable(task: Task) -> bool:
    """Whether the rows of a task can be joined with others: there are some, and all inputs have as many."""
    rows = (task.size,)
    return task.size > 0 and all(array.shape[:1] == rows for array in task.inputs.values())
