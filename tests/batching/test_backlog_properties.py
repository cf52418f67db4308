"""Random arrivals, times, cancellations and takings, compared step by step with the naive statement of the rules."""

import math
import random

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, multiple, rule

from batching import DeadlineError, Joining, QueueFullError, QueueOptions, QueuePolicy, Task, TimeoutAction
from batching.backlog import Backlog
from batching.cut import Part, submitted
from tests.batching.naive_backlog import NaiveBacklog

LANES = (
    QueueOptions(max_batch_size=8),
    QueueOptions(max_batch_size=4, max_queue_delay_s=2.0, max_queue_size=4),
    QueueOptions(max_batch_size=8, max_queue_delay_s=3.0, preferred_batch_size=(2, 5), max_queue_rows=30),
    QueueOptions(max_batch_size=6, joining=Joining.ALONE, weight=3.0),
    QueueOptions(max_batch_size=2, joining=Joining.SHARE),
    QueueOptions(
        max_batch_size=8,
        max_queue_delay_s=1.5,
        priority_levels=3,
        default_priority_level=2,
        default_queue_policy=QueuePolicy(default_timeout_s=4.0, allow_timeout_override=True),
        priority_queue_policy={
            1: QueuePolicy(max_queue_size=2),
            3: QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_s=1.0),
        },
    ),
    QueueOptions(
        max_batch_size=4,
        default_queue_policy=QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_s=0.5),
        weight=0.5,
    ),
)
SPANS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, 1e6])
SIZES = st.one_of(st.integers(1, 3), st.integers(0, 20))
ARRIVALS = st.tuples(
    st.integers(0, 2),  # lane
    st.sampled_from([0, 0, 0, 1]),  # key
    SIZES,
    st.integers(0, 4),  # priority
    st.sampled_from([0.0, 0.0, 1.0, 2.0]),  # timeout
    st.one_of(st.none(), st.none(), SPANS),  # deadline
)


class Comparison:
    """A backlog and its naive twin, which are told the same and must answer the same."""

    def __init__(self, lanes):
        self.backlog = Backlog()
        self.naive = NaiveBacklog()
        self.lanes = lanes
        self.now = 100.0
        self.rows_given = {}

    def submit(self, lane, key, size, priority, timeout_s, deadline_s):
        options = self.lanes[lane % len(self.lanes)]
        deadline = None if deadline_s is None else self.now + deadline_s
        inputs = {} if options.joining is Joining.SHARE else {"x": np.arange(size)}
        task = Task((options, key), size, inputs, ("y",), options, lambda *_: None, deadline, priority, timeout_s)
        is_full = self.naive.is_full(task, options.level_of(priority), size)
        try:
            self.backlog.add(task, self.now)
        except QueueFullError:
            assert is_full
        else:
            assert not is_full
            self.naive.add(task, self.now)
        return task

    def cancel(self, task):
        waits = any(waiting.task is task for waiting in self.naive.waiting)
        assert self.backlog.remove(task, self.now) == waits
        self.naive.remove(task)

    def wait_until_due(self):
        due = min(self.backlog.next_expiry(), self.backlog.next_ready_at())
        if math.isfinite(due):
            self.now = max(self.now, due)

    def expire(self):
        expired = self.backlog.expire(self.now)
        assert {task for task, _ in expired} == set(self.naive.expire(self.now))
        assert len({task for task, _ in expired}) == len(expired)
        for task, error in expired:
            assert isinstance(error, DeadlineError) == (task.deadline is not None and task.deadline <= task.timeout_at)
        assert self.backlog.next_expiry() > self.now

    def stop_joining(self, lane):
        options = self.lanes[lane % len(self.lanes)]
        if options.joining is Joining.JOIN:
            self.backlog.lane(options).stop_joining("test", self.now)
            self.naive.unjoined.add(options)

    def take(self):
        self.expire()
        expected = self.naive.take(self.now)
        assert (self.backlog.next_ready_at() <= self.now) == bool(expected)
        batch = self.backlog.take(self.now)
        if batch is None:
            assert not expected
            return False
        pairs = [(submitted(task), task.size) for task in batch.tasks]
        assert pairs in expected
        self.naive.taken(pairs, self.now)
        self._check_rows(batch)
        return True

    def check_counts(self):
        assert self.backlog.num_tasks == len(self.naive.waiting)
        assert self.backlog.size == sum(waiting.rows for waiting in self.naive.waiting)
        for lane in self.backlog.lanes:
            assert all(len(queue) for queue in lane.queues.values())
            assert lane.size == sum(queue.size for queue in lane.queues.values())
            assert lane.num_tasks == len(list(lane.tasks()))

    def clear(self):
        assert set(self.backlog.clear(self.now)) == {waiting.task for waiting in self.naive.waiting}
        assert self.backlog.num_tasks == self.backlog.size == 0
        assert math.isinf(self.backlog.next_expiry())

    def _check_rows(self, batch):
        assert len({task.key for task in batch.tasks}) == 1
        if batch.by_rows:
            assert batch.size == sum(task.size for task in batch.tasks) <= batch.options.max_batch_size
        for task in batch.tasks:
            assert task.deadline is None or task.deadline > self.now
            if isinstance(task, Part):
                assert task.start == self.rows_given.get(task.whole, 0)
                assert task.inputs["x"].tolist() == list(range(task.start, task.start + task.size))
                self.rows_given[task.whole] = task.start + task.size


class BacklogMachine(RuleBasedStateMachine):
    """Lets Hypothesis look for a short sequence on which the two differ."""

    tasks = Bundle("tasks")

    @initialize(lanes=st.lists(st.sampled_from(LANES), min_size=1, max_size=3, unique=True))
    def start(self, lanes):
        self.both = Comparison(lanes)

    @rule(target=tasks, arrivals=st.lists(ARRIVALS, min_size=1, max_size=8))
    def submit(self, arrivals):
        return multiple(*(self.both.submit(*arrival) for arrival in arrivals))

    @rule(task=consumes(tasks))
    def cancel(self, task):
        self.both.cancel(task)

    @rule(span=SPANS)
    def let_time_pass(self, span):
        self.both.now += span

    @rule()
    def let_time_pass_until_something_is_due(self):
        self.both.wait_until_due()

    @rule(lane=st.integers(0, 2), chance=st.integers(0, 9))
    def learn_that_rows_mix(self, lane, chance):
        if chance == 0:
            self.both.stop_joining(lane)

    @rule(batches=st.integers(1, 4))
    def take(self, batches):
        for _ in range(batches):
            self.both.take()

    def teardown(self):
        if hasattr(self, "both"):
            self.both.check_counts()
            self.both.clear()


TestBacklog = BacklogMachine.TestCase
TestBacklog.settings = settings(max_examples=100, stateful_step_count=30, deadline=None, derandomize=True)


@pytest.mark.parametrize("seed", range(21))
def test_long_random_traffic_follows_the_rules(seed):
    rng = random.Random(seed)
    both = Comparison([LANES[seed % 7], LANES[(seed + 1 + seed // 7) % 7]])
    tasks = []
    for _ in range(600):
        action = rng.random()
        if action < 0.5:
            deadline_s = rng.choice([None, None, None, 0.0, 0.5, 2.0])
            size = rng.choice([1, 1, 2, 3, rng.randrange(21)])
            timeout_s = rng.choice([0.0, 0.0, 1.0, 2.0])
            tasks.append(
                both.submit(rng.randrange(2), rng.choice([0, 0, 1]), size, rng.randrange(5), timeout_s, deadline_s)
            )
        elif action < 0.55 and tasks:
            both.cancel(rng.choice(tasks))
        elif action < 0.7:
            both.now += rng.choice([0.0, 0.25, 0.5, 1.0])
        elif action < 0.75:
            both.wait_until_due()
        else:
            both.take()
        both.check_counts()
    both.wait_until_due()
    while both.take() or both.naive.waiting:
        both.wait_until_due()
    both.clear()
