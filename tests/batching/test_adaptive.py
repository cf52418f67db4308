import pytest

from batching import QueueOptions
from batching.adaptive import AdaptiveLimits
from batching.batch_queue import BatchQueue
from tests.batching.simulation import Simulation
from tests.batching.tasks import task

TASKS = 6_000


def with_objective(objective_s):
    return QueueOptions(max_batch_size=64, latency_objective_s=objective_s)


def fill_window(limits, latency_s, now, size=1):
    """A hundred runs of two tasks each, ending at ``now``."""
    for _ in range(100):
        limits.ran(size, 0.001, [latency_s] * 2, now)


def test_size_backs_off_when_a_run_takes_too_much_of_the_objective_and_grows_again():
    limits = AdaptiveLimits(0.1, max_batch_size=64)
    limits.ran(64, 0.06, [0.06], 1.0)
    assert limits.max_batch_size == 57

    limits.ran(57, 0.04, [0.04], 2.0)
    limits.ran(20, 0.04, [0.04], 3.0)
    assert limits.max_batch_size == 58


def test_size_never_leaves_its_bounds():
    limits = AdaptiveLimits(0.1, max_batch_size=2)
    limits.ran(2, 0.01, [0.01], 1.0)
    assert limits.max_batch_size == 2
    for _ in range(9):
        limits.ran(limits.max_batch_size, 1.0, [1.0], 1.0)
    assert limits.max_batch_size == 1


def test_delay_grows_while_throughput_holds_and_halves_when_the_objective_is_missed():
    limits = AdaptiveLimits(0.1, max_batch_size=64)
    limits.ran(1, 0.001, [0.001], 0.0)
    delays = []
    for window in range(1, 4):
        fill_window(limits, 0.01, float(window))
        delays.append(limits.max_queue_delay_s)
    assert 0 < delays[0] < delays[1] < delays[2]

    fill_window(limits, 0.2, 4.0)
    assert limits.max_queue_delay_s == delays[2] / 2


def test_step_that_costs_throughput_is_taken_back_and_not_tried_again_soon():
    limits = AdaptiveLimits(0.1, max_batch_size=64)
    limits.ran(1, 0.001, [0.001], 0.0)
    fill_window(limits, 0.01, 1.0)
    fill_window(limits, 0.01, 3.0)  # half of the throughput

    assert limits.max_queue_delay_s == 0.0
    for window in range(7):
        fill_window(limits, 0.01, 4.0 + window)
        assert limits.max_queue_delay_s == 0.0
    fill_window(limits, 0.01, 12.0)
    assert limits.max_queue_delay_s > 0.0


def test_no_delay_is_tried_while_all_batches_are_full():
    limits = AdaptiveLimits(0.1, max_batch_size=4)
    limits.ran(4, 0.001, [0.001], 0.0)
    fill_window(limits, 0.01, 1.0, size=4)

    assert limits.max_queue_delay_s == 0.0


def test_task_above_the_present_limit_is_run_whole():
    options = with_objective(0.1)
    limits = AdaptiveLimits(0.1, max_batch_size=64)
    limits.ran(2, 1.0, [1.0], 0.0)
    queue = BatchQueue("k", options, limits=limits, joins=True)
    large, small, oversize = task(size=50), task(size=1), task(size=70)
    for member in (large, small, oversize):
        member.options = options
        queue.add(member)

    assert [queue.take(0.0).size for _ in range(4)] == [50, 1, 1, 1]


@pytest.mark.parametrize("objective_s", [0.02, 0.2])
@pytest.mark.parametrize("per_second", [300, 1000])
def test_objective_is_kept_for_tasks_that_come_at_random(objective_s, per_second):
    simulation = Simulation(with_objective(objective_s), base_s=0.001, row_s=0.0005).open_loop(per_second, TASKS)

    assert simulation.p99 < objective_s
    assert simulation.throughput == pytest.approx(per_second, rel=0.05)


@pytest.mark.parametrize("objective_s", [0.02, 0.2])
@pytest.mark.parametrize(("callers", "base_s"), [(1, 0.001), (16, 0.001), (16, 0.009), (256, 0.001)])
def test_callers_who_wait_for_answers_get_as_many_as_without_delay(objective_s, callers, base_s):
    plain = Simulation(QueueOptions(max_batch_size=64), base_s, row_s=0.0001).closed_loop(callers, TASKS)
    adaptive = Simulation(with_objective(objective_s), base_s, row_s=0.0001).closed_loop(callers, TASKS)

    assert adaptive.throughput > 0.95 * plain.throughput
    assert adaptive.p99 < max(1.05 * objective_s, 1.05 * plain.p99)


def test_runs_are_kept_short_where_full_batches_would_take_too_long():
    plain = Simulation(QueueOptions(max_batch_size=64), base_s=0.001, row_s=0.001).open_loop(700, TASKS)
    adaptive = Simulation(with_objective(0.05), base_s=0.001, row_s=0.001).open_loop(700, TASKS)

    assert max(adaptive.batches[-100:]) <= 26
    assert adaptive.p99 < 1.2 * plain.p99
