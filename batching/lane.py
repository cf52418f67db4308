"""The waiting tasks of one signature, over all of its keys. Plain state: no threads, no clock."""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from enum import Enum
from typing import Final

from batching.adaptive import AdaptiveLimits
from batching.batch import Batch
from batching.batch_queue import BatchQueue
from batching.batch_record import BatchRecord
from batching.counts import LaneCounts, QueueCounts, Tally
from batching.cut import submitted
from batching.errors import OversizeError, QueueFullError
from batching.mutable_heap import MutableHeap
from batching.options import Joining, Oversize, QueueOptions
from batching.policy import TimeoutAction
from batching.response_order import ResponseOrder
from batching.task import Task


class SpecialKey(Enum):
    """Keys of queues that are not those of tasks."""

    ALONE = "alone"
    """Of the queue of all tasks that run alone: they need no queue per key, because they never meet in a batch."""


_QUICK_S: Final = 0.0003
"""A run that takes less is quick: to wake a thread for it would take about as long."""

_MOST_TRUST: Final = 8

_LONG_S: Final = 0.1
"""A run that takes as long would hold up all others, if it ran in the thread that receives them."""

_RUNS_OF_DISTRUST: Final = 1000
"""Quick runs that must follow a long one before any is taken for quick again: it may depend on the data."""


class Lane:
    """The queues of all tasks that carry the same options object: their limits, and their order among themselves.

    A queue per key is made when its first task comes and dropped when its last one leaves, so that keys that clients
    invent (their shapes are part of it) cost nothing once they are served.

    Invariants:
        - ``num_tasks``, ``size`` and ``nbytes`` are the sums over the queues; no queue is empty.
        - Every queue is either ready or has a time at which it will be.

    Attributes:
        options: the rules of all tasks here.
        joins: whether any tasks are joined; false for good once an output turned out not to have a row per row.
        num_tasks: tasks that wait.
        size: rows that wait.
        nbytes: bytes of their inputs, counted only if they are limited.
        next_turn: the earliest turn at which the next batch may be taken; kept by the backlog.
        tally: what has happened here.
        queues: the queue of each key that has waiting tasks.
    """

    __slots__ = (
        "_adaptive",
        "_may_refuse",
        "_may_skip_queues",
        "_num_by_level",
        "_order",
        "_ready",
        "_trust",
        "_unready",
        "joins",
        "nbytes",
        "next_turn",
        "num_tasks",
        "options",
        "queues",
        "size",
        "tally",
    )

    def __init__(self, options: QueueOptions) -> None:
        self.options = options
        self.joins = options.joining is not Joining.ALONE
        self.num_tasks = 0
        self.size = 0
        self.nbytes = 0
        self.next_turn = 0.0
        self.tally = Tally()
        self.queues: dict[Hashable, BatchQueue] = {}
        self._num_by_level: Counter[int] = Counter()
        self._may_refuse = options.oversize is Oversize.REJECT or any(
            (options.max_queue_size, options.max_queue_rows, options.max_queue_bytes)
        )
        self._adaptive = (
            AdaptiveLimits(options.latency_objective_s, options.max_batch_size) if options.latency_objective_s else None
        )
        self._order = ResponseOrder() if options.preserve_ordering else None
        self._trust = 0
        self._may_skip_queues = (
            options.joining is Joining.JOIN
            and not (options.max_queue_delay_s or options.latency_objective_s or options.preserve_ordering)
            and all(size == options.max_batch_size for size in options.preferred_batch_size)
        )
        self._ready: MutableHeap[tuple[int, float], BatchQueue] = MutableHeap()
        self._unready: MutableHeap[float, BatchQueue] = MutableHeap()

    def __repr__(self) -> str:
        return f"<Lane: {self.num_tasks} tasks, {self.size} rows in {len(self.queues)} queues>"

    def add(self, task: Task, now: float) -> bool:
        """Let a task wait in the queue of its key; returns whether a batch may be ready earlier than before.

        Raises:
            QueueFullError: as much as may wait does so already.
            OversizeError: it has more rows than a batch may have and must not be cut.
        """
        level = self.options.level_of(task.priority)
        policy = self.options.policy_of(level)
        if task.nbytes is None:
            task.nbytes = _nbytes(task) if self.options.max_queue_bytes else 0
        try:
            if self._may_refuse or policy.max_queue_size:
                self._admit(task, level, policy.max_queue_size)
            queue = self._queue_for(task)
        except (QueueFullError, OversizeError) as error:
            self.tally.drops[type(error)] += 1
            raise
        timeout_s = policy.timeout_s(task.timeout_s)
        task.queued_at = now
        task.timeout_at = now + timeout_s if timeout_s > 0 else math.inf
        task.rank = 2 * level
        self._account(task, 1)
        self.size += task.size
        if self._order is not None:
            self._order.admit(task)
        is_news = queue.add(task)
        if is_news:
            self._place(queue, now)
        return is_news

    def form(self, tasks: Sequence[Task], now: float) -> list[Batch] | None:
        """Make batches of tasks of one key that came together, without a queue in between.

        Args:
            tasks: at least one; nothing else waits.
            now: the present time.

        Returns:
            Batches as ``add`` and ``take`` would make them; None where that is not known to be so, or where the runs
            would not be quick.
        """
        if not (self._may_skip_queues and self.joins and self.is_quick):
            return None
        largest = self.options.max_batch_size
        batches: list[Batch] = []
        chosen: list[Task] = []
        size = 0
        for task in tasks:
            rows = task.size
            if rows > largest or not _is_joinable(task) or not (task.deadline is None or task.deadline > now):
                return None
            if size + rows > largest:
                batches.append(Batch(chosen, size, by_rows=True))
                chosen, size = [], 0
            chosen.append(task)
            size += rows
            task.queued_at = now
        return [*batches, Batch(chosen, size, by_rows=True)]

    def remove(self, task: Task, now: float) -> None:
        """Take out a task that waits here."""
        queue = _queue_of(task)
        self._account(task, -1)
        self.size -= task.size - task.taken
        queue.remove(task)
        self._place(queue, now)

    def time_out(self, task: Task, now: float) -> bool:
        """Do what the task's policy says when its timeout has passed; returns whether it must be finished for that."""
        if self.options.policy_of(task.rank // 2).timeout_action is TimeoutAction.REJECT:
            self.remove(task, now)
            return True
        queue = _queue_of(task)
        queue.put_back(task, task.rank + 1)
        self._place(queue, now)
        return False

    def take(self, now: float) -> Batch:
        """Take a batch from the ready queue with the most urgent first task; there must be one."""
        ready = self._ready.first()
        assert ready is not None  # noqa: S101 - the caller's promise, for the type checker
        queue = ready[1]
        size = queue.size
        batch = queue.take(now)
        for task in batch.tasks:
            waited = submitted(task)
            if waited.queue is None:
                self._account(waited, -1)
        self.size -= size - queue.size
        self.tally.took(batch, now)
        self._place(queue, now)
        return batch

    @property
    def is_quick(self) -> bool:
        """Whether a batch should be over sooner than another thread would be awake: most were, none was long."""
        return self._trust > _MOST_TRUST // 2

    def ran(self, batch: Batch, record: BatchRecord, now: float) -> None:
        """Learn from the first run of a batch that was taken here and is finished."""
        if record.compute_infer_ns < _QUICK_S * 1e9:
            self._trust = min(self._trust + 1, _MOST_TRUST)
        elif record.compute_infer_ns >= _LONG_S * 1e9:
            self._trust = -_RUNS_OF_DISTRUST
        elif self._trust > 0:
            self._trust = max(self._trust - 2, 0)
        if self._adaptive is not None:
            latencies = [now - task.queued_at for task in batch.tasks]
            self._adaptive.ran(batch.size, record.compute_infer_ns / 1e9, latencies, now)

    def ready_since(self, now: float) -> float | None:
        """Since when the most urgent batch waits for a worker; None if none is ready."""
        while (due := self._unready.first()) is not None and due[0] <= now:
            self._place(due[1], now)
        ready = self._ready.first()
        return None if ready is None else ready[0][1]

    def next_ready_at(self) -> float:
        """When the next batch is ready if nothing changes: in the past if one is, infinity if nothing waits."""
        if self._ready:
            return -math.inf
        due = self._unready.first()
        return math.inf if due is None else due[0]

    def stop_joining(self, reason: str, now: float) -> None:
        """Run every task alone from now on."""
        self.joins = False
        self.tally.mismatch = reason
        for queue in list(self.queues.values()):
            queue.joins = False
            self._place(queue, now)

    def expect_no_more(self, now: float) -> None:
        """Let no batch wait for company any more, because nothing will be added."""
        for queue in list(self.queues.values()):
            queue.expects_more = False
            self._place(queue, now)

    def tasks(self) -> Iterator[Task]:
        """All waiting tasks."""
        for queue in self.queues.values():
            yield from queue

    def counts(self) -> LaneCounts:
        """A snapshot of the numbers of this lane."""
        queues = {key: QueueCounts(len(queue), queue.size) for key, queue in self.queues.items()}
        return self.tally.snapshot(self.num_tasks, self.size, queues)

    def _admit(self, task: Task, level: int, max_queue_size: int) -> None:
        options = self.options
        if task.size > options.max_batch_size and self._refuses_oversize():
            raise OversizeError(f"{task.size} rows are more than the largest batch, {options.max_batch_size}")
        if options.max_queue_size and self.num_tasks >= options.max_queue_size:
            raise _full(options.max_queue_size, "requests")
        if max_queue_size and self._num_by_level[level] >= max_queue_size:
            raise _full(max_queue_size, "requests")
        if options.max_queue_rows and self.num_tasks and self.size + task.size > options.max_queue_rows:
            raise _full(options.max_queue_rows, "rows")
        if options.max_queue_bytes and self.num_tasks and self.nbytes + (task.nbytes or 0) > options.max_queue_bytes:
            raise _full(options.max_queue_bytes, "bytes")

    def _refuses_oversize(self) -> bool:
        return self.joins and self.options.joining is Joining.JOIN and self.options.oversize is Oversize.REJECT

    def _account(self, task: Task, count: int) -> None:
        """Count a task that comes (1) or leaves (-1), but for its rows, which may leave one by one."""
        self.num_tasks += count
        self.nbytes += count * (task.nbytes or 0)
        self._num_by_level[task.rank // 2] += count

    def _queue_for(self, task: Task) -> BatchQueue:
        joins = self.joins and (self.options.joining is Joining.SHARE or _is_joinable(task))
        key = task.key if joins else SpecialKey.ALONE
        queue = self.queues.get(key)
        if queue is None:
            queue = self.queues[key] = BatchQueue(key, self.options, limits=self._adaptive, joins=joins)
        return queue

    def _place(self, queue: BatchQueue, now: float) -> None:
        """Put the queue among the ready ones or the others, where its tasks want it, or drop it."""
        self._ready.discard(queue)
        self._unready.discard(queue)
        if len(queue) == 0:
            del self.queues[queue.key]
        elif (ready_at := queue.ready_at) <= now:
            self._ready.set(queue, queue.front)
        else:
            self._unready.set(queue, ready_at)


def _queue_of(task: Task) -> BatchQueue:
    assert task.queue is not None  # noqa: S101 - callers only ask for tasks that wait, for the type checker
    return task.queue


def _nbytes(task: Task) -> int:
    return sum(array.nbytes for array in task.inputs.values())


def _full(limit: int, unit: str) -> QueueFullError:
    return QueueFullError(f"the queue is full: its limit is {limit} waiting {unit}")


def _is_joinable(task: Task) -> bool:
    """Whether the rows of a task can be joined with others: there are some, and all inputs have as many."""
    rows = (task.size,)
    for array in task.inputs.values():  # a loop, because this runs for every task and a generator costs twice as much
        if array.shape[:1] != rows:
            return False
    return task.size > 0
