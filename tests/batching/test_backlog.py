import math

import pytest

from batching import QueueOptions, QueuePolicy, TimeoutAction
from batching.backlog import Backlog
from tests.batching.tasks import OPTIONS, task

RARE, HOT = QueueOptions(max_batch_size=8), QueueOptions(max_batch_size=8)


def test_rare_signature_goes_next_however_long_the_hot_one_has_waited():
    backlog = Backlog()
    for _ in range(100):
        backlog.add(task(size=8, options=HOT), 0.0)
    backlog.take(10.0)
    rare = task(options=RARE)
    backlog.add(rare, 11.0)

    assert list(backlog.take(20.0).tasks) == [rare]


def test_signatures_that_always_have_work_take_turns():
    backlog = Backlog()
    for _ in range(6):
        backlog.add(task(size=8, options=HOT), 0.0)
        backlog.add(task(size=8, options=RARE), 0.0)

    order = [backlog.take(float(now)).options for now in range(1, 13)]

    assert order == [HOT, RARE] * 6


def test_weight_gives_more_turns():
    heavy = QueueOptions(max_batch_size=8, weight=3.0)
    backlog = Backlog()
    for _ in range(100):
        backlog.add(task(size=8, options=HOT), 0.0)
        backlog.add(task(size=8, options=heavy), 0.0)

    order = [backlog.take(float(now)).options for now in range(1, 81)]

    assert order.count(heavy) == pytest.approx(60, abs=3)
    assert order.count(HOT) == 80 - order.count(heavy)


def test_deadline_that_is_no_number_is_refused():
    backlog = Backlog()
    with pytest.raises(ValueError, match="not a number"):
        backlog.add(task(deadline=math.nan), 0.0)
    assert backlog.num_tasks == 0


def test_rest_of_a_cut_task_expires_at_its_deadline_but_not_by_its_timeout():
    backlog = Backlog()
    started, late = (task(size=20, deadline=deadline, timeout_s=1.0) for deadline in (None, 5.0))
    backlog.add(started, 0.0)
    backlog.add(late, 0.0)
    for _ in range(3):
        backlog.take(0.5)

    assert backlog.expire(2.0) == []
    assert [expired for expired, _ in backlog.expire(5.0)] == [late]
    assert backlog.num_tasks == 0


def test_task_whose_timeout_delays_it_is_run_after_later_ones():
    policy = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_s=1.0)
    options = QueueOptions(max_batch_size=1, default_queue_policy=policy)
    backlog = Backlog()
    early, late = task(options=options), task(options=options)
    backlog.add(early, 0.0)
    backlog.add(late, 0.5)

    assert backlog.expire(1.0) == []
    assert [list(backlog.take(1.2).tasks) for _ in range(2)] == [[late], [early]]


def test_options_seen_once_do_not_slow_the_choice_among_others():
    backlog = Backlog()
    assert backlog.take(0.0) is None
    assert backlog.next_ready_at() == math.inf
    backlog.add(task(options=OPTIONS), 0.0)
    assert backlog.next_ready_at() == -math.inf
