"""Who submits may run quick batches itself, so that no other thread is woken for them."""

import threading
import time
from typing import ClassVar

import pytest

from batching import BatchScheduler, DeadlineError, Oversize, OversizeError, QueueOptions, StoppedError, Task
from batching.burst import Burst
from tests.batching.tasks import OPTIONS, Answers, double, task

WAIT_S = 30.0
RUNS_UNTIL_TRUSTED = 8


class Runs:
    """A run function that tells in which threads it ran, and on how many rows; what ``before`` does comes first."""

    def __init__(self):
        self.threads = []
        self.sizes = []
        self.before = lambda: None

    def __call__(self, key, inputs, outputs):
        self.threads.append(threading.current_thread())
        self.sizes.append(len(inputs["x"]))
        self.before()
        return double(key, inputs, outputs)


@pytest.fixture
def answers():
    return Answers()


@pytest.fixture
def runs():
    return Runs()


@pytest.fixture(autouse=True)
def measures_no_machine(monkeypatch):
    """A busy machine must not make a run look slow that is not, nor wake a thread for one that takes its time."""
    monkeypatch.setattr("batching.lane._QUICK_S", 60.0)
    monkeypatch.setattr("batching.runs._PATIENCE_S", 60.0)


def earn_trust(scheduler, answers):
    for number in range(RUNS_UNTIL_TRUSTED):
        known = task(number, done=answers)
        scheduler.submit(known)
        answers.wait(known)
        while scheduler.counts().running_batches:
            pass


def test_tasks_of_a_burst_run_together_in_the_thread_that_submitted_them(answers, runs):
    with BatchScheduler(runs, workers=2) as scheduler:
        earn_trust(scheduler, answers)
        tasks = [task(number, done=answers) for number in range(3)]
        burst = Burst()
        for member in tasks:
            burst.submit(scheduler, member)
        assert burst
        burst.run()

        assert [answers.results[member][0].outputs["y"].item() for member in tasks] == [0, 2, 4]
    assert runs.threads[-1] is threading.current_thread()
    assert runs.sizes[-1] == 3
    assert not burst


def test_runs_of_which_nothing_is_known_are_left_to_the_workers(answers, runs):
    with BatchScheduler(runs) as scheduler:
        asked = task(1, done=answers)
        scheduler.submit(asked, wake=False)
        scheduler.help()
        answers.wait(asked)

    assert runs.threads[0] is not threading.current_thread()


def test_runs_that_take_their_time_are_left_to_the_workers(answers, runs, monkeypatch):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        monkeypatch.setattr("batching.lane._QUICK_S", 0.0)
        earn_trust(scheduler, answers)
        asked = task(1, done=answers)
        scheduler.submit(asked, wake=False)
        scheduler.help()
        answers.wait(asked)

    assert runs.threads[-1] is not threading.current_thread()


def test_a_batch_that_waits_for_company_is_left_to_the_workers(answers, runs):
    patient = QueueOptions(max_batch_size=2, max_queue_delay_s=WAIT_S)
    with BatchScheduler(runs) as scheduler:
        first, second = task(1, options=patient, done=answers), task(2, options=patient, done=answers)
        scheduler.submit(first, wake=False)
        scheduler.help()
        assert not first.is_finished
        scheduler.submit(second)
        answers.wait(first, second)

    assert runs.sizes == [2]


def test_the_helper_runs_what_comes_while_it_runs(answers, runs):
    with BatchScheduler(runs, workers=2) as scheduler:
        earn_trust(scheduler, answers)
        later = task(5, done=answers)

        def submit_once():
            if not later.queued_at:
                scheduler.submit(later)

        runs.before = submit_once
        scheduler.submit(task(1, done=answers), wake=False)
        scheduler.help()

        assert later.is_finished
    assert runs.threads[-2:] == [threading.current_thread()] * 2


def test_a_worker_takes_what_waits_behind_a_quick_batch_that_turns_out_to_be_slow(answers, runs, monkeypatch):
    monkeypatch.setattr("batching.runs._PATIENCE_S", 0.001)
    with BatchScheduler(runs, workers=2) as scheduler:
        earn_trust(scheduler, answers)
        behind = task(5, done=answers)

        def wait_for_the_other():
            if threading.current_thread() is threading.main_thread():
                scheduler.submit(behind)
                answers.wait(behind)

        runs.before = wait_for_the_other
        scheduler.submit(task(1, done=answers), wake=False)
        scheduler.help()

    assert runs.threads[-1] is not threading.main_thread()


def test_no_more_than_the_workers_number_of_batches_run_at_once_helpers_included(answers, runs):
    with BatchScheduler(runs, workers=1) as scheduler:
        earn_trust(scheduler, answers)
        behind = task(5, done=answers)

        def look():
            scheduler.submit(behind, wake=False)
            helper = threading.Thread(target=scheduler.help)
            helper.start()
            helper.join(WAIT_S)
            assert not behind.is_finished
            runs.before = lambda: None

        runs.before = look
        scheduler.submit(task(1, done=answers), wake=False)
        scheduler.help()
        answers.wait(behind)

    assert scheduler.counts().running_batches == 0


def test_a_failure_is_told_to_the_caller_and_not_to_the_helper(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        bad = task(-1, done=answers)
        scheduler.submit(bad, wake=False)
        scheduler.help()

        assert str(answers.results[bad][0].error) == "negative"


def test_stop_waits_for_helpers(answers, runs):
    scheduler = BatchScheduler(runs)
    earn_trust(scheduler, answers)
    entered, released = threading.Event(), threading.Event()

    def hold():
        entered.set()
        assert released.wait(WAIT_S)

    runs.before = hold
    held = task(1, done=answers)
    scheduler.submit(held, wake=False)
    helper = threading.Thread(target=scheduler.help)
    helper.start()
    assert entered.wait(WAIT_S)
    stopping = threading.Thread(target=scheduler.stop)
    stopping.start()
    deadline = time.monotonic() + WAIT_S
    while any(thread.is_alive() for thread in scheduler._threads) and time.monotonic() < deadline:
        pass
    assert stopping.is_alive()
    released.set()
    helper.join(WAIT_S)
    stopping.join(WAIT_S)

    assert answers.results[held][0].error is None
    assert not stopping.is_alive()


def test_a_callback_in_a_helper_may_stop_the_scheduler(answers, runs):
    scheduler = BatchScheduler(runs)
    earn_trust(scheduler, answers)

    def done(member, result):
        scheduler.stop()
        answers(member, result)

    asked = task(1, done=done)
    scheduler.submit(asked, wake=False)
    scheduler.help()

    assert answers.results[asked][0].error is None
    scheduler.stop()


def test_deadlines_act_for_tasks_that_wait_for_a_helper(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        late = task(1, done=answers, deadline=time.monotonic() - 1.0, options=OPTIONS)
        scheduler.submit(late, wake=False)
        scheduler.help()

        assert answers.results[late][0].error is not None
    assert len(runs.sizes) == RUNS_UNTIL_TRUSTED


# Bursts. ---------------------------------------------------------------------------------------------------------


class Refusable(Task):
    """A task that keeps why it was refused, and tells of those that were answered in one go."""

    __slots__ = ("reason",)
    together: ClassVar[list[list[Task]]] = []

    def refuse(self, error):
        self.reason = error

    @classmethod
    def finish_all(cls, tasks, answers, record, started):
        cls.together.append(list(tasks))
        super().finish_all(tasks, answers, record, started)


@pytest.fixture(autouse=True)
def nothing_answered():
    Refusable.together.clear()


def refusable(*args, **more):
    plain = task(*args, **more)
    return Refusable(
        plain.key, plain.size, plain.inputs, plain.outputs, plain.options, plain.done, plain.deadline, plain.priority
    )


def submit_burst(scheduler, *tasks):
    burst = Burst()
    for member in tasks:
        burst.submit(scheduler, member)
    burst.run()


def rows_of(answers, member):
    (result,) = answers.results[member]
    return result.outputs["y"][:, 0].tolist()


def test_a_burst_of_several_keys_makes_a_batch_of_each(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        tasks = [task(number, key=(number % 2,), done=answers) for number in range(6)]
        submit_burst(scheduler, *tasks)

        assert [rows_of(answers, member) for member in tasks] == [[2 * number] for number in range(6)]
    assert runs.sizes[RUNS_UNTIL_TRUSTED:] == [3, 3]


def test_a_burst_that_is_larger_than_a_batch_makes_several(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        tasks = [task(10 * number, size=3, done=answers) for number in range(5)]
        submit_burst(scheduler, *tasks)

        assert rows_of(answers, tasks[4]) == [80, 82, 84]
    assert runs.sizes[RUNS_UNTIL_TRUSTED:] == [6, 6, 3]


def test_a_burst_waits_behind_what_was_there_before(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        before = task(1, key=("other",), done=answers)
        scheduler.submit(before, wake=False)
        submit_burst(scheduler, task(2, done=answers))

        assert list(answers.results)[-2] is before


def test_a_burst_whose_rules_ask_for_a_queue_goes_through_one(answers, runs):
    patient = QueueOptions(max_batch_size=8, max_queue_delay_s=WAIT_S)
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        member = task(1, options=patient, done=answers)
        submit_burst(scheduler, member)
        assert scheduler.counts().queued_tasks == 1
        assert scheduler.drain(WAIT_S)

        assert rows_of(answers, member) == [2]


def test_deadlines_act_in_a_burst(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        late, good = task(1, deadline=time.monotonic() - 1.0, done=answers), task(2, done=answers)
        submit_burst(scheduler, late, good)
        answers.wait(late, good)

        assert isinstance(answers.results[late][0].error, DeadlineError)
        assert rows_of(answers, good) == [4]


def test_tasks_of_a_burst_that_are_not_taken_are_told_why(answers, runs):
    small = QueueOptions(max_batch_size=8, oversize=Oversize.REJECT)
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        large, good = refusable(0, size=9, options=small, done=answers), refusable(1, options=small, done=answers)
        submit_burst(scheduler, large, good)
        answers.wait(good)
        scheduler.drain()
        late = refusable(1, done=answers)
        submit_burst(scheduler, late)

    assert isinstance(large.reason, OversizeError)
    assert isinstance(late.reason, StoppedError)
    assert large not in answers.results


def test_a_refused_task_that_says_nothing_else_is_finished_with_the_reason(answers, runs):
    with BatchScheduler(runs) as scheduler:
        scheduler.drain()
        late = task(1, done=answers)
        submit_burst(scheduler, late)

    assert isinstance(answers.results[late][0].error, StoppedError)


def test_a_caller_that_cannot_be_told_of_a_refusal_harms_no_other_of_its_burst(answers, runs):
    class Deaf(Refusable):
        def refuse(self, error):
            raise RuntimeError("deaf")

    with BatchScheduler(runs) as scheduler:
        scheduler.drain()
        plain = task(1)
        deaf = Deaf(plain.key, plain.size, plain.inputs, plain.outputs, plain.options, answers)
        late = task(2, done=answers)
        submit_burst(scheduler, deaf, late)

    assert isinstance(answers.results[late][0].error, StoppedError)


def test_a_worker_takes_the_next_batch_of_a_burst_whose_first_one_turns_out_to_be_slow(answers, runs, monkeypatch):
    monkeypatch.setattr("batching.runs._PATIENCE_S", 0.001)
    with BatchScheduler(runs, workers=2) as scheduler:
        earn_trust(scheduler, answers)
        first, second = task(1, key=(1,), done=answers), task(2, key=(2,), done=answers)

        def wait_for_the_other():
            if threading.current_thread() is threading.main_thread():
                answers.wait(second)

        runs.before = wait_for_the_other
        submit_burst(scheduler, first, second)

        assert rows_of(answers, first) == [2]
    assert runs.threads[-1] is not threading.main_thread()


def test_stop_fails_what_a_burst_has_not_begun(answers, runs):
    scheduler = BatchScheduler(runs)
    earn_trust(scheduler, answers)
    first, second = task(1, key=(1,), done=answers), task(2, key=(2,), done=answers)

    def stop():
        assert scheduler.counts().queued_tasks == 1
        scheduler.stop()

    runs.before = stop
    submit_burst(scheduler, first, second)

    assert rows_of(answers, first) == [2]
    assert isinstance(answers.results[second][0].error, StoppedError)
    scheduler.stop()


def test_tasks_that_ran_together_are_answered_in_one_go(answers, runs):
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        tasks = [refusable(number, done=answers) for number in range(3)]
        submit_burst(scheduler, *tasks)

    assert Refusable.together == [tasks]
    assert [rows_of(answers, member) for member in tasks] == [[0], [2], [4]]


@pytest.mark.parametrize("size", [1, 20])
def test_tasks_that_were_cut_or_are_answered_in_order_are_answered_one_by_one(answers, runs, size):
    options = QueueOptions(max_batch_size=8, preserve_ordering=size == 1)
    with BatchScheduler(runs) as scheduler:
        earn_trust(scheduler, answers)
        member = refusable(0, size=size, options=options, done=answers)
        submit_burst(scheduler, member)
        answers.wait(member)

        assert rows_of(answers, member) == [2 * number for number in range(size)]
    assert Refusable.together == []
