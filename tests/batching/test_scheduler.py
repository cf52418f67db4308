import threading
import time

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
