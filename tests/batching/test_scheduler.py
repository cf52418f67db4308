import threading
import time
import weakref

import numpy as np
import pytest

from batching import (
    BatchScheduler,
    DeadlineError,
    Joining,
    Oversize,
    OversizeError,
    QueueFullError,
    QueueOptions,
    QueuePolicy,
    QueueTimeoutError,
    StoppedError,
    Task,
    TaskCancelledError,
)
from tests.batching.tasks import OPTIONS, Answers, Gate, double, task


@pytest.fixture
def answers():
    return Answers()


def test_answer_has_the_rows_that_were_asked_for(answers):
    with BatchScheduler(double) as scheduler:
        asked = task(3, size=2, done=answers)
        scheduler.submit(asked)
        (result,) = answers.wait(asked)

    assert result.error is None
    assert result.outputs["y"].tolist() == [[6], [8]]
    assert result.batch_size == 2
    assert min(result.queue_ns, result.compute_input_ns, result.compute_infer_ns, result.compute_output_ns) >= 0


def test_tasks_that_wait_for_a_busy_worker_are_run_together(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        tasks = [task(number, done=answers) for number in range(5)]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        for member in tasks[1:]:
            scheduler.submit(member)
        gate.opened.set()
        results = answers.wait(*tasks)

    assert gate.calls == [(("double",), 1), (("double",), 4)]
    assert [result.outputs["y"].item() for result in results] == [0, 2, 4, 6, 8]


def test_only_the_guilty_member_of_a_failed_batch_gets_the_error(answers):
    gate, records = Gate(), []
    with BatchScheduler(gate, observe=records.append) as scheduler:
        tasks = [task(number, done=answers, options=QueueOptions(max_batch_size=32)) for number in (9, *range(-1, 15))]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        for member in tasks[1:]:
            scheduler.submit(member)
        gate.opened.set()
        _first, bad, *good = answers.wait(*tasks)

    assert str(bad.error) == "negative"
    assert [result.outputs["y"].item() for result in good] == [2 * number for number in range(15)]
    assert sum(record.is_retry for record in records) <= 10


def test_outputs_that_are_not_by_rows_are_never_cut(answers):
    def mean(key, inputs, outputs):
        return {"y": inputs["x"].mean(axis=0, keepdims=True)}

    gate = Gate(mean)
    with BatchScheduler(gate) as scheduler:
        tasks = [task(number, size=size, done=answers) for number, size in ((0, 1), (5, 3), (7, 1), (0, 21))]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        for member in tasks[1:]:
            scheduler.submit(member)
        gate.opened.set()
        results = answers.wait(*tasks)

    assert [result.outputs["y"].item() for result in results] == [0, 6, 7, 10]


def test_oversize_task_is_answered_in_one_piece(answers):
    records = []
    with BatchScheduler(double, workers=3, observe=records.append) as scheduler:
        asked = task(size=21, done=answers)
        scheduler.submit(asked)
        (result,) = answers.wait(asked)

    assert result.outputs["y"][:, 0].tolist() == [2 * row for row in range(21)]
    assert max(record.size for record in records) == 8


def test_oversize_task_is_refused_where_options_say_so(answers):
    options = QueueOptions(max_batch_size=8, oversize=Oversize.REJECT)
    with BatchScheduler(double) as scheduler, pytest.raises(OversizeError, match="9 rows are more than"):
        scheduler.submit(task(size=9, options=options, done=answers))

    assert answers.results == {}


def test_callers_of_a_constant_share_a_run(answers):
    options = QueueOptions(max_batch_size=1, joining=Joining.SHARE)
    gate = Gate(lambda key, inputs, outputs: {"y": np.float32(4.0)})
    with BatchScheduler(gate) as scheduler:
        tasks = [Task(("constant",), 1, {}, ("y",), options, answers) for _ in range(6)]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        for member in tasks[1:]:
            scheduler.submit(member)
        gate.opened.set()
        results = answers.wait(*tasks)

    assert len(gate.calls) == 2
    assert all(result.outputs["y"] == 4.0 and result.batch_size == 1 for result in results)


def test_full_queue_refuses_at_once(answers):
    gate = Gate()
    options = QueueOptions(max_batch_size=8, max_queue_size=2)
    with BatchScheduler(gate) as scheduler:
        tasks = [task(number, options=options, done=answers) for number in range(4)]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        scheduler.submit(tasks[1])
        scheduler.submit(tasks[2])
        with pytest.raises(QueueFullError):
            scheduler.submit(tasks[3])
        gate.opened.set()
        answers.wait(*tasks[:3])

    assert tasks[3] not in answers.results


def test_cancelled_task_is_never_run(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        running, waiting = task(1, done=answers), task(2, done=answers)
        scheduler.submit(running)
        gate.entered.acquire()
        scheduler.submit(waiting)
        assert scheduler.cancel(waiting)
        assert not scheduler.cancel(running)
        gate.opened.set()
        first, second = answers.wait(running, waiting)

    assert first.outputs["y"].item() == 2
    assert isinstance(second.error, TaskCancelledError)
    assert len(gate.calls) == 1
    assert not scheduler.cancel(running)


def test_deadline_acts_while_every_worker_is_busy(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        running = task(1, done=answers)
        scheduler.submit(running)
        gate.entered.acquire()
        late = task(2, done=answers, deadline=time.monotonic() + 0.05)
        scheduler.submit(late)
        (result,) = answers.wait(late)
        assert running not in answers.results
        gate.opened.set()

    assert isinstance(result.error, DeadlineError)
    assert 50e6 <= result.queue_ns < 5e9
    assert len(gate.calls) == 1


def test_drain_finishes_what_was_taken_and_refuses_more(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        tasks = [task(number, done=answers) for number in range(3)]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        scheduler.submit(tasks[1])
        assert not scheduler.drain(timeout_s=0.0)
        with pytest.raises(StoppedError):
            scheduler.submit(tasks[2])
        gate.opened.set()
        assert scheduler.drain(timeout_s=30.0)

    assert set(answers.results) == set(tasks[:2])


def test_stop_fails_what_waits(answers):
    gate = Gate()
    scheduler = BatchScheduler(gate)
    running, waiting = task(1, done=answers), task(2, done=answers)
    scheduler.submit(running)
    gate.entered.acquire()
    scheduler.submit(waiting)
    stopper = threading.Thread(target=scheduler.stop)
    stopper.start()
    (result,) = answers.wait(waiting)
    gate.opened.set()
    stopper.join()

    assert isinstance(result.error, StoppedError)
    assert answers.results[running][0].error is None
    assert "stopped" in repr(scheduler)


def test_failing_callbacks_and_observers_do_not_end_a_worker(answers, caplog):
    def fail(*_):
        raise SystemExit("no")

    with BatchScheduler(double, observe=fail) as scheduler:
        scheduler.submit(task(done=fail))
        good = task(4, done=answers)
        scheduler.submit(good)
        (result,) = answers.wait(good)

    assert result.outputs["y"].item() == 8
    assert "callback of a finished task failed" in caplog.text
    assert "observer of batches failed" in caplog.text


def test_different_keys_are_never_joined(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        tasks = [task(number, key=("k", number % 2), done=answers) for number in range(5)]
        scheduler.submit(tasks[0])
        gate.entered.acquire()
        for member in tasks[1:]:
            scheduler.submit(member)
        gate.opened.set()
        answers.wait(*tasks)

    assert gate.calls == [(("k", 0), 1), (("k", 1), 2), (("k", 0), 2)]
    assert scheduler.counts().lanes[OPTIONS].queues == {}


def test_zero_rows_do_not_wait_for_company(answers):
    options = QueueOptions(max_batch_size=8, max_queue_delay_s=1000.0)
    with BatchScheduler(double) as scheduler:
        waiting, empty = task(1, options=options, done=answers), task(size=0, options=options, done=answers)
        scheduler.submit(waiting)
        scheduler.submit(empty)
        (result,) = answers.wait(empty)
        assert waiting not in answers.results
        counts = scheduler.counts()

    assert result.outputs["y"].shape == (0, 1)
    assert (counts.queued_tasks, counts.queued_rows, counts.running_batches) == (1, 1, 0)


def submit_while_busy(scheduler, gate, first, *others):
    """Let the first task occupy the worker and the others wait."""
    scheduler.submit(first)
    gate.entered.acquire()
    for member in others:
        scheduler.submit(member)


def test_higher_priority_overtakes_what_waits(answers):
    options = QueueOptions(max_batch_size=1, priority_levels=3, default_priority_level=2)
    gate = Gate()
    order = []
    with BatchScheduler(gate, observe=lambda record: order.append(record.key)) as scheduler:
        tasks = [
            task(options=options, key=name, done=answers, priority=priority)
            for name, priority in (("running", 3), ("low", 3), ("default", 0), ("too low", 9), ("high", 1))
        ]
        submit_while_busy(scheduler, gate, *tasks)
        gate.opened.set()
        answers.wait(*tasks)

    assert order == ["running", "high", "default", "too low", "low"]


OVERRIDABLE = QueuePolicy(default_timeout_s=100.0, allow_timeout_override=True)


@pytest.mark.parametrize("policy", [None, OVERRIDABLE])
def test_own_timeout_acts_while_every_worker_is_busy(answers, policy):
    options = QueueOptions(max_batch_size=8, default_queue_policy=policy)
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        running, patient = task(options=options, done=answers), task(1, options=options, done=answers)
        impatient = task(2, options=options, done=answers, timeout_s=0.05)
        submit_while_busy(scheduler, gate, running, patient, impatient)
        (result,) = answers.wait(impatient)
        assert patient not in answers.results
        gate.opened.set()
        answers.wait(patient)

    assert isinstance(result.error, QueueTimeoutError)
    assert str(result.error) == "Request timeout expired"
    assert result.batch_size == 0
    assert scheduler.counts().lanes[options].drops == {QueueTimeoutError: 1}


def test_answers_keep_the_order_of_the_requests(answers):
    options = QueueOptions(max_batch_size=1, preserve_ordering=True)
    first_may_end, order = threading.Event(), []

    def run(key, inputs, outputs):
        if inputs["x"].item() == 0:
            assert first_may_end.wait(30)
        return double(key, inputs, outputs)

    def done(member, result):
        order.append(result.outputs["y"].item())
        answers(member, result)

    with BatchScheduler(run, workers=2, observe=lambda record: None) as scheduler:
        tasks = [task(number, options=options, done=done) for number in range(4)]
        other = task(9, done=answers)
        for member in (*tasks, other):
            scheduler.submit(member)
        answers.wait(other)
        assert order == []
        first_may_end.set()
        answers.wait(*tasks)

    assert order == [0, 2, 4, 6]


def test_callbacks_may_submit_cancel_and_stop(answers):
    scheduler = BatchScheduler(double)
    second, third = task(2, done=answers), task(3, done=answers)

    def done(member, result):
        scheduler.submit(second)
        scheduler.submit(third)
        scheduler.cancel(third)
        scheduler.stop()
        answers(member, result)

    first = task(1, done=done)
    scheduler.submit(first)
    results = answers.wait(first, second, third)
    scheduler.stop()

    assert [type(result.error) for result in results] == [type(None), StoppedError, TaskCancelledError]


def test_worker_outlives_a_defect_of_the_batcher_itself(answers, monkeypatch, caplog):
    with BatchScheduler(double) as scheduler:
        monkeypatch.setattr(scheduler._processor, "process", lambda batch: 1 / 0)
        lost = task(done=answers)
        scheduler.submit(lost)
        assert isinstance(answers.wait(lost)[0].error, ZeroDivisionError)
        monkeypatch.undo()
        good = task(2, done=answers)
        scheduler.submit(good)
        assert answers.wait(good)[0].outputs["y"].item() == 4

    assert "inside the batcher" in caplog.text


def test_nothing_of_a_finished_task_is_kept(answers):
    """Neither its inputs, which a kept ticket would hold, nor its callback, which an idle worker would."""
    finished, freed = threading.Event(), threading.Event()
    with BatchScheduler(double) as scheduler:
        kept = task(done=lambda member, result: finished.set())
        rows = weakref.ref(kept.inputs["x"])
        watch = weakref.finalize(kept.done, freed.set)
        scheduler.submit(kept)
        assert finished.wait(30)
        assert scheduler.drain(timeout_s=30.0)
        assert rows() is None
        del kept
        assert freed.wait(30)

    assert not watch.alive


def test_cancelled_task_whose_part_fails_later_is_finished_once(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        asked = task(-1, size=20, done=answers)
        scheduler.submit(asked)
        gate.entered.acquire()
        assert scheduler.cancel(asked)
        gate.opened.set()

    assert [type(result.error) for result in answers.results[asked]] == [TaskCancelledError]


def cpu_s(scheduler):
    """CPU time of the scheduler's own threads so far."""
    return sum(time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) for thread in scheduler._threads)


def test_idle_scheduler_with_fifty_waiting_queues_uses_no_cpu(answers):
    options = QueueOptions(max_batch_size=8, max_queue_delay_s=1000.0)
    with BatchScheduler(double, workers=4) as scheduler:
        for number in range(50):
            scheduler.submit(task(options=options, key=number, done=answers, deadline=time.monotonic() + 1000.0))
        threading.Event().wait(0.2)  # until the threads that were woken sleep again
        cpu = cpu_s(scheduler)
        threading.Event().wait(2.0)  # time in which nothing happens is what is measured
        cpu = cpu_s(scheduler) - cpu

    assert cpu < 0.001


def test_tasks_that_wait_for_busy_workers_use_no_cpu(answers):
    gate = Gate()
    with BatchScheduler(gate) as scheduler:
        submit_while_busy(scheduler, gate, *(task(number, done=answers) for number in range(50)))
        threading.Event().wait(0.2)
        cpu = cpu_s(scheduler)
        threading.Event().wait(0.5)
        cpu = cpu_s(scheduler) - cpu
        gate.opened.set()

    assert cpu < 0.001


def test_rare_signature_waits_for_one_batch_of_the_flooded_one(answers):
    """However deep the flood's backlog is, only the batch that runs goes first."""
    hot, rare = QueueOptions(max_batch_size=4), QueueOptions(max_batch_size=4)
    gate, order = Gate(), []
    with BatchScheduler(gate, observe=lambda record: order.append(record.options)) as scheduler:
        flood = [task(number, options=hot, done=answers) for number in range(400)]
        submit_while_busy(scheduler, gate, *flood, asked := task(options=rare, done=answers))
        gate.opened.set()
        answers.wait(*flood, asked)

    assert order.index(rare) == 1


def test_workers_run_side_by_side(answers):
    options = QueueOptions(max_batch_size=1)
    together = threading.Barrier(3, timeout=30)

    def run(key, inputs, outputs):
        together.wait()
        return double(key, inputs, outputs)

    with BatchScheduler(run, workers=3) as scheduler:
        tasks = [task(number, options=options, done=answers) for number in range(3)]
        for member in tasks:
            scheduler.submit(member)
        results = answers.wait(*tasks)

    assert all(result.error is None for result in results)


def test_batch_waits_for_company_no_longer_than_the_delay(answers):
    options = QueueOptions(max_batch_size=2, max_queue_delay_s=0.05)
    with BatchScheduler(double) as scheduler:
        alone, *pair = (task(number, options=options, done=answers) for number in range(3))
        scheduler.submit(alone)
        (waited,) = answers.wait(alone)
        for member in pair:
            scheduler.submit(member)
        joined = answers.wait(*pair)

    assert 50e6 <= waited.queue_ns < 5e9
    assert [result.batch_size for result in joined] == [2, 2]


def test_durations_of_a_cut_task_do_not_exceed_the_time_that_passed(answers):
    options = QueueOptions(max_batch_size=1)
    together = threading.Barrier(4, timeout=30)

    def run(key, inputs, outputs):
        together.wait()
        return double(key, inputs, outputs)

    with BatchScheduler(run, workers=4) as scheduler:
        asked = task(size=4, options=options, done=answers)
        began = time.monotonic_ns()
        scheduler.submit(asked)
        (result,) = answers.wait(asked)
        passed = time.monotonic_ns() - began

    spent = result.queue_ns + result.compute_input_ns + result.compute_infer_ns + result.compute_output_ns
    assert 0 < spent <= passed
    assert result.batch_size == 1


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="workers must be at least 1"):
        BatchScheduler(double, workers=0)


def test_drain_does_not_let_batches_wait_for_company(answers):
    options = QueueOptions(max_batch_size=8, max_queue_delay_s=1000.0)
    with BatchScheduler(double) as scheduler:
        asked = task(3, options=options, done=answers)
        scheduler.submit(asked)
        assert scheduler.drain(timeout_s=30.0)

    assert answers.results[asked][0].outputs["y"].item() == 6


def test_callbacks_of_several_workers_may_stop_at_once(answers):
    together = threading.Barrier(2, timeout=30)
    scheduler = BatchScheduler(double, workers=2)

    def done(member, result):
        together.wait()
        scheduler.stop()
        answers(member, result)

    options = QueueOptions(max_batch_size=1)
    tasks = [task(number, options=options, done=done) for number in range(2)]
    for member in tasks:
        scheduler.submit(member)
    answers.wait(*tasks)
    scheduler.stop()

    assert not any(thread.is_alive() for thread in scheduler._threads)


def test_poison_in_every_round_costs_the_others_nothing_but_time(answers):
    """Fifteen good tasks and one bad one wait together, a thousand times."""
    options = QueueOptions(max_batch_size=16)
    with BatchScheduler(double) as scheduler:
        for number in range(1000):
            tasks = [task(-1 if index == number % 16 else index, options=options, done=answers) for index in range(16)]
            for member in tasks:
                scheduler.submit(member)
            results = answers.wait(*tasks)
            assert [index for index, result in enumerate(results) if result.error is not None] == [number % 16]
            assert all(result.error or result.outputs["y"].item() == 2 * index for index, result in enumerate(results))

    counts = scheduler.counts().lanes[options]
    assert counts.failed_runs >= 1000
    assert counts.retried_runs <= 1000 * 10


def test_timeout_does_not_count_the_time_to_wake_a_free_worker(answers):
    options = QueueOptions(max_batch_size=8)
    with BatchScheduler(double) as scheduler:
        for number in range(200):
            hasty = task(number, options=options, done=answers, timeout_s=1e-9)
            scheduler.submit(hasty)
            (result,) = answers.wait(hasty)
            assert result.error is None
            # The worker counts as busy until it has looked around again.
            while scheduler.counts().running_batches:
                pass
