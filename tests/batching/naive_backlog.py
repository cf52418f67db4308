"""The rules of the backlog, written down as plainly as possible and without regard to cost, to compare with."""

import math
from dataclasses import dataclass

from batching import Joining, TimeoutAction


@dataclass
class Waiting:
    """One task that waits."""

    task: object
    lane: object
    key: object
    level: int
    arrived: float
    place: int  # grows with each arrival and each putting back
    rows: int
    times_out: float
    was_put_back: bool = False

    @property
    def rank(self):
        return 2 * self.level + self.was_put_back


class NaiveBacklog:
    """Keeps one list and looks at all of it every time."""

    def __init__(self):
        self.waiting: list[Waiting] = []
        self.unjoined = set()
        self._taken_at = {}
        self._turn = 0.0
        self._next_turn = {}
        self._places = 0

    def is_full(self, task, level, rows):
        lane = task.options
        mine = [waiting for waiting in self.waiting if waiting.lane is lane]
        limit = lane.policy_of(level).max_queue_size
        return bool(
            (lane.max_queue_size and len(mine) >= lane.max_queue_size)
            or (limit and sum(waiting.level == level for waiting in mine) >= limit)
            or (lane.max_queue_rows and mine and sum(waiting.rows for waiting in mine) + rows > lane.max_queue_rows)
        )

    def add(self, task, now):
        lane = task.options
        level = lane.level_of(task.priority)
        timeout_s = lane.policy_of(level).timeout_s(task.timeout_s)
        joins = self._joins(lane) and (lane.joining is Joining.SHARE or task.size > 0)
        key = task.key if joins else "alone"
        times_out = now + timeout_s if timeout_s else math.inf
        self.waiting.append(Waiting(task, lane, key, level, now, self._next_place(), task.size, times_out))

    def remove(self, task):
        self.waiting = [waiting for waiting in self.waiting if waiting.task is not task]
        self._forget_empty()

    def expire(self, now):
        """Tasks that end, in no order."""
        ended = []
        for waiting in sorted(self.waiting, key=lambda waiting: waiting.times_out):
            deadline = math.inf if waiting.task.deadline is None else waiting.task.deadline
            delays = waiting.lane.policy_of(waiting.level).timeout_action is TimeoutAction.DELAY
            if deadline <= now or (waiting.times_out <= now and not delays):
                ended.append(waiting.task)
            elif waiting.times_out <= now:
                waiting.was_put_back, waiting.times_out, waiting.place = True, math.inf, self._next_place()
        for task in ended:
            self.remove(task)
        return ended

    def take(self, now):
        """What is run next as (task, rows) pairs, None if nothing is ready; and all choices as good as this one."""
        ready = [(lane, key) for lane, key in self._queues() if self._ready_at(lane, key) <= now]
        best_of_lane = {}
        for lane, key in ready:
            front = self._front(lane, key)
            best_of_lane.setdefault(lane, []).append((front, key))
        choices = []
        for lane, fronts in best_of_lane.items():
            front = min(front for front, _ in fronts)
            place = (max(self._next_turn.get(lane, 0.0), self._turn), front[1])
            choices += [(place, self._batch(lane, key)) for other, key in fronts if other == front]
        first = min((place for place, _ in choices), default=None)
        return [batch for place, batch in choices if place == first]

    def taken(self, pairs, now):
        lane, key = next((waiting.lane, waiting.key) for waiting in self.waiting if waiting.task is pairs[0][0])
        self._taken_at[lane, key] = now
        self._turn = max(self._next_turn.get(lane, 0.0), self._turn)
        self._next_turn[lane] = self._turn + 1.0 / lane.weight
        for task, rows in pairs:
            waiting = next(waiting for waiting in self.waiting if waiting.task is task)
            waiting.rows -= rows
            waiting.times_out = math.inf
            if waiting.rows == 0:
                self.remove(task)

    def _next_place(self):
        self._places += 1
        return self._places

    def _joins(self, lane):
        return lane.joining is not Joining.ALONE and lane not in self.unjoined

    def _queues(self):
        return {(waiting.lane, waiting.key) for waiting in self.waiting}

    def _forget_empty(self):
        queues = self._queues()
        self._taken_at = {queue: taken_at for queue, taken_at in self._taken_at.items() if queue in queues}

    def _queue(self, lane, key):
        members = [waiting for waiting in self.waiting if waiting.lane is lane and waiting.key == key]
        return sorted(members, key=lambda waiting: (waiting.rank, waiting.place))

    def _front(self, lane, key):
        first = self._queue(lane, key)[0]
        return first.rank, max(first.arrived, self._taken_at.get((lane, key), -math.inf))

    def _ready_at(self, lane, key):
        queue = self._queue(lane, key)
        rows = sum(waiting.rows for waiting in queue)
        if not lane.max_queue_delay_s or not self._joins(lane) or key == "alone" or rows >= lane.max_batch_size:
            return -math.inf
        if self._preferred(lane, queue):
            return -math.inf
        heads = {waiting.rank: waiting for waiting in reversed(queue)}
        return min(waiting.arrived for waiting in heads.values()) + lane.max_queue_delay_s

    def _preferred(self, lane, queue):
        sums = [sum(waiting.rows for waiting in queue[: count + 1]) for count in range(len(queue))]
        return max((size for size in sums if size in lane.preferred_batch_size), default=0)

    def _batch(self, lane, key):
        queue = self._queue(lane, key)
        if not self._joins(lane) or key == "alone":
            return [(queue[0].task, queue[0].rows)]
        if lane.joining is Joining.SHARE:
            return [(waiting.task, waiting.rows) for waiting in queue]
        room = self._preferred(lane, queue) or lane.max_batch_size
        batch = []
        for waiting in queue:
            if waiting.rows > room:
                if room and waiting.task.size > lane.max_batch_size:
                    batch.append((waiting.task, room))
                break
            if room == 0:
                break
            batch.append((waiting.task, waiting.rows))
            room -= waiting.rows
        return batch
