from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batching import Joining, QueueFullError, QueueOptions
from batching.lane import Lane
from tests.batching.tasks import task


def test_rows_that_wait_are_limited():
    options = QueueOptions(max_batch_size=8, max_queue_rows=10)
    lane = Lane(options)
    lane.add(task(size=6, options=options), 0.0)
    lane.add(task(size=4, options=options), 0.0)

    with pytest.raises(QueueFullError, match="limit is 10 waiting rows"):
        lane.add(task(size=1, options=options), 0.0)
    lane.take(1.0)
    lane.add(task(size=6, options=options), 1.0)
    assert lane.size == 10


def test_task_above_the_limit_is_taken_if_nothing_waits():
    options = QueueOptions(max_batch_size=8, max_queue_rows=10)
    lane = Lane(options)

    lane.add(task(size=100, options=options), 0.0)

    assert lane.size == 100


def test_bytes_that_wait_are_limited_by_what_the_tasks_say_or_hold():
    options = QueueOptions(max_batch_size=8, max_queue_bytes=100)
    lane = Lane(options)
    held, told = task(size=5, options=options), task(size=1, options=options, nbytes=60)
    lane.add(held, 0.0)
    assert lane.nbytes == 40
    lane.add(told, 0.0)

    with pytest.raises(QueueFullError, match="waiting bytes"):
        lane.add(task(size=1, options=options), 0.0)
    lane.remove(told, 0.0)
    assert lane.nbytes == 40
    assert lane.counts().drops == {QueueFullError: 1}


def test_inputs_with_different_first_dimensions_run_alone_and_whole():
    options = QueueOptions(max_batch_size=2)
    lane = Lane(options)
    uneven = task(size=3, options=options)
    uneven.inputs = {"x": np.zeros((3, 1)), "anchors": np.zeros((7, 4))}
    tasks = [task(options=options), uneven, task(options=options)]
    for now, member in enumerate(tasks):
        lane.add(member, float(now))

    batches = [lane.take(3.0), lane.take(3.0)]

    assert [list(batch.tasks) for batch in batches] == [[tasks[0], tasks[2]], [uneven]]
    assert not batches[1].by_rows


def test_a_million_keys_leave_nothing_behind():
    options = QueueOptions(max_batch_size=8)
    lane = Lane(options)
    for number in range(1000):  # the sizes of the containers show the trend as well as a million would
        lane.add(task(options=options, key=number), 0.0)
        lane.take(0.0)

    assert len(lane.queues) == len(lane._ready) == len(lane._unready) == 0
    assert len(lane._ready._heap) + len(lane._unready._heap) < 200


def test_tasks_that_run_alone_need_no_queue_per_key():
    options = QueueOptions(max_batch_size=8, joining=Joining.ALONE)
    lane = Lane(options)
    for number in range(10):
        lane.add(task(options=options, key=number), 0.0)

    assert len(lane.queues) == 1
    assert [lane.take(0.0).key for _ in range(10)] == list(range(10))


def test_counts_tell_waits_runs_and_drops():
    options = QueueOptions(max_batch_size=8)
    lane = Lane(options)
    lane.add(task(options=options, size=3), 10.0)
    lane.add(task(options=options, size=20), 11.0)
    lane.take(12.0)
    lane.take(13.0)
    counts = lane.counts()

    assert (counts.queued_tasks, counts.queued_rows) == (1, 7)
    assert (counts.started_tasks, counts.waited_s, counts.longest_wait_s) == (2, 3.0, 2.0)
    assert [(queue.tasks, queue.rows) for queue in counts.queues.values()] == [(1, 7)]


def test_as_many_priorities_as_a_number_can_say_cost_nothing():
    options = QueueOptions(max_batch_size=8, priority_levels=2**64 - 1, default_priority_level=2**63)
    lane = Lane(options)
    for priority in (0, 2**63 + 1, 1):
        lane.add(task(priority=priority, options=options), 0.0)

    batch = lane.take(0.0)
    assert [each.priority for each in batch.tasks] == [1, 0, 2**63 + 1]


# Without a queue. ------------------------------------------------------------------------------------------------


def trusted(options):
    """A lane whose runs have been quick."""
    lane = Lane(options)
    for _ in range(8):
        lane.ran(SimpleNamespace(tasks=[], size=1), SimpleNamespace(compute_infer_ns=1000), 0.0)
    return lane


@pytest.mark.parametrize(("seconds", "quick_runs"), [(0.09, 1), (0.1, 1005), (60.0, 1005)])
def test_a_long_run_costs_the_trust_of_a_thousand(seconds, quick_runs):
    lane = trusted(QueueOptions(max_batch_size=8))
    batch = SimpleNamespace(tasks=[], size=1)
    for _ in range(2):
        lane.ran(batch, SimpleNamespace(compute_infer_ns=int(seconds * 1e9)), 0.0)

    for _ in range(quick_runs - 1):
        lane.ran(batch, SimpleNamespace(compute_infer_ns=1000), 0.0)
        assert not lane.is_quick
    lane.ran(batch, SimpleNamespace(compute_infer_ns=1000), 0.0)
    assert lane.is_quick


@given(
    sizes=st.lists(st.integers(0, 10), min_size=1, max_size=20),
    preferred=st.sampled_from([(), (8,), (4, 8)]),
    late=st.sampled_from([None, 0, 3]),
)
def test_batches_that_are_formed_are_those_that_would_be_taken_from_the_queue(sizes, preferred, late):
    options = QueueOptions(max_batch_size=8, preferred_batch_size=preferred)
    tasks = [
        task(size=size, options=options, deadline=0.5 if number == late else 2.0) for number, size in enumerate(sizes)
    ]
    formed = trusted(options).form(tasks, 1.0)
    if preferred == (4, 8) or any(not 0 < size <= 8 for size in sizes) or (late is not None and late < len(sizes)):
        assert formed is None
        return

    queued = trusted(options)
    for member in tasks:
        queued.add(member, 1.0)
    for batch in formed:
        taken = queued.take(1.0)
        assert (batch.tasks, batch.size, batch.by_rows) == (taken.tasks, taken.size, taken.by_rows)
    assert queued.num_tasks == 0


@pytest.mark.parametrize(
    "more",
    [
        {"max_queue_delay_s": 1.0},
        {"latency_objective_s": 1.0},
        {"preserve_ordering": True},
        {"joining": Joining.ALONE},
        {"joining": Joining.SHARE},
    ],
)
def test_no_batch_is_formed_where_the_rules_want_a_queue(more):
    options = QueueOptions(max_batch_size=8, **more)

    assert trusted(options).form([task(options=options)], 0.0) is None


def test_no_batch_is_formed_of_runs_that_are_not_known_to_be_quick_or_cannot_be_joined():
    options = QueueOptions(max_batch_size=8)
    mismatched = trusted(options)
    mismatched.stop_joining("an output has no rows", 0.0)

    assert Lane(options).form([task(options=options)], 0.0) is None
    assert mismatched.form([task(options=options)], 0.0) is None
