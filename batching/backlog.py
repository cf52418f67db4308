"""All that waits for the workers of one scheduler, and what they should do next. Plain state: no threads, no clock."""

import math
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence

from batching.batch import Batch
from batching.cut import submitted
from batching.errors import BatchingError, DeadlineError, QueueTimeoutError
from batching.lane import Lane
from batching.mutable_heap import MutableHeap
from batching.options import QueueOptions
from batching.task import Task


class Backlog:
    """The lanes of all signatures, and the tasks in the order in which they expire.

    Fairness: lanes that always have a ready batch take turns, in proportion to their weights. A lane that had none
    gets the present turn with its next one, before those that were served since; it does not save up turns. Among
    lanes with the same turn the one goes first whose batch has waited longest. So a rare signature waits for the
    batches that run, not for the backlog of a flooded one. Source: start-time fair queueing (Goyal, Vin, Cheng 1996),
    with batches as the unit of service.

    Invariants:
        - A task waits here from ``add`` until ``remove``, ``expire`` or ``take`` has handed it out, and is handed out
          once.
        - ``take`` never hands out a task whose deadline is not after ``now``, unless ``form`` took it.

    Times are seconds of one monotonic clock that the caller reads. Not thread-safe.

    Attributes:
        num_tasks: tasks that wait.
    """

    __slots__ = ("_expiring", "_formed", "_lanes", "_turn", "num_tasks")

    def __init__(self) -> None:
        self._lanes: dict[QueueOptions, Lane] = {}
        self._turn = 0.0  # of the batch that was taken last
        self._expiring: MutableHeap[float, Task] = MutableHeap()
        self._formed: deque[Batch] = deque()
        self.num_tasks = 0

    @property
    def size(self) -> int:
        """Rows that wait."""
        return sum(lane.size for lane in self._lanes.values()) + sum(batch.size for batch in self._formed)

    @property
    def lanes(self) -> Iterator[Lane]:
        """The lanes of all options objects that were ever used."""
        return iter(self._lanes.values())

    def lane(self, options: QueueOptions) -> Lane:
        """The lane of the tasks with these options."""
        lane = self._lanes.get(options)
        if lane is None:
            lane = self._lanes[options] = Lane(options)
        return lane

    def add(self, task: Task, now: float) -> bool:
        """Let a task wait for its turn; returns whether something may be due earlier than before.

        Raises:
            QueueFullError: its lane is full.
            OversizeError: it has more rows than a batch may have and must not be cut.
            ValueError: its deadline is not a number.
        """
        if task.deadline is not None and math.isnan(task.deadline):
            raise ValueError("the deadline is not a number")
        is_news = self.lane(task.options).add(task, now)
        self.num_tasks += 1
        if task.expires_at < math.inf:
            self._expiring.set(task, task.expires_at)
            return True
        return is_news

    def form(self, tasks: Sequence[Task], now: float) -> bool:
        """Take tasks that came together in the form of batches, which ``take`` hands out next, one after the other.

        Args:
            tasks: at least one, of any keys.
            now: the present time.

        Returns:
            Whether they were taken. Not where something waits already, or the rules of any task want it to be queued.
        """
        if self.num_tasks:
            return False
        batches = []
        for same in _by_key(tasks):
            formed = self.lane(same[0].options).form(same, now)
            if formed is None:
                return False
            batches += formed
        for batch in batches:
            self.lane(batch.options).tally.took_at_once(len(batch.tasks))
        self._formed.extend(batches)
        self.num_tasks = len(tasks)
        return True

    def remove(self, task: Task, now: float) -> bool:
        """Take out a task; false if it does not wait here any more, so that it belongs to somebody else."""
        self._expiring.discard(task)
        if task.queue is None:
            return False
        self._remove(task, now)
        return True

    def expire(self, now: float) -> list[tuple[Task, BatchingError]]:
        """Take out the tasks that must not be run any more, each with the reason; put back those that may wait."""
        expired: list[tuple[Task, BatchingError]] = []
        while (first := self._expiring.first()) is not None and first[0] <= now:
            task = first[1]
            self._expiring.discard(task)
            if error := self._expire(task, now):
                expired.append((task, error))
        return expired

    def take(self, now: float, *, only_quick: bool = False) -> Batch | None:
        """Take out the batch that is to be run next, if one is ready. ``expire`` was called with the same time.

        Args:
            now: the present time.
            only_quick: whether the batch is left where it is unless it should be over soon; those of ``form`` should.
        """
        if self._formed:
            batch = self._formed.popleft()
            self.num_tasks -= len(batch.tasks)
            return batch
        lane, turn = self._next_lane(now)
        if lane is None or (only_quick and not lane.is_quick):
            return None
        self._turn = turn
        lane.next_turn = turn + 1.0 / lane.options.weight
        waiting = lane.num_tasks
        batch = lane.take(now)
        self.num_tasks -= waiting - lane.num_tasks
        for task in batch.tasks if len(self._expiring) else ():
            waited = submitted(task)
            if waited.queue is None:
                self._expiring.discard(waited)
            else:
                self.forget_timeout(waited)
        return batch

    def forget_timeout(self, task: Task) -> None:
        """Let no timeout of a task count any more: it was put back, a part of it runs, or it is about to run."""
        task.timeout_at = math.inf
        if task.deadline is None:
            self._expiring.discard(task)
        else:
            self._expiring.set(task, task.deadline)

    def next_expiry(self) -> float:
        """When ``expire`` will have something to do; infinity if nothing expires."""
        first = self._expiring.first()
        return math.inf if first is None else first[0]

    def next_ready_at(self) -> float:
        """When the next batch is ready if nothing changes: in the past if one is, infinity if nothing waits."""
        if self._formed:
            return -math.inf
        return min((lane.next_ready_at() for lane in self._lanes.values() if lane.num_tasks), default=math.inf)

    def expect_no_more(self, now: float) -> None:
        """Let no batch wait for company any more, because nothing will be added."""
        for lane in self._lanes.values():
            lane.expect_no_more(now)

    def clear(self, now: float) -> list[Task]:
        """Take out everything."""
        tasks = [task for lane in self._lanes.values() for task in lane.tasks()]
        for task in tasks:
            self.remove(task, now)
        formed = [task for batch in self._formed for task in batch.tasks]
        self._formed.clear()
        self.num_tasks -= len(formed)
        return formed + tasks

    def _remove(self, task: Task, now: float) -> None:
        self.lane(task.options).remove(task, now)
        self.num_tasks -= 1

    def _expire(self, task: Task, now: float) -> BatchingError | None:
        """Deal with a task one of whose times has come; returns the error that it is to be finished with, if any."""
        if task.deadline is not None and task.deadline <= min(now, task.timeout_at):
            self._remove(task, now)
            return DeadlineError("the deadline passed before the request's turn came")
        if self.lane(task.options).time_out(task, now):
            self.num_tasks -= 1
            return QueueTimeoutError("Request timeout expired")
        self.forget_timeout(task)
        return None

    def _next_lane(self, now: float) -> tuple[Lane | None, float]:
        """The ready lane with the earliest turn, of several the one that has waited longest; and that turn."""
        chosen, first = None, (math.inf, math.inf)
        for lane in self._lanes.values():
            if lane.num_tasks and (since := lane.ready_since(now)) is not None:
                place = (max(lane.next_turn, self._turn), since)
                if place < first:
                    chosen, first = lane, place
        return chosen, first[0]


def _by_key(tasks: Sequence[Task]) -> Iterable[Sequence[Task]]:
    first = tasks[0]
    # Most often it is one key, and that one object; to hash keys would take longer than all the rest.
    for task in tasks:  # a loop, because a generator costs twice as much
        if task.key is not first.key or task.options is not first.options:
            break
    else:
        return [tasks]
    groups: dict[tuple[QueueOptions, Hashable], list[Task]] = {}
    for task in tasks:
        groups.setdefault((task.options, task.key), []).append(task)
    return groups.values()
