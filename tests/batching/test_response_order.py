import threading

from batching import TaskCancelledError, TaskResult
from batching.response_order import ResponseOrder
from batching.task import failure
from tests.batching.tasks import task


def admitted(order, given, count):
    tasks = [task(number, done=lambda member, result: given.append(member)) for number in range(count)]
    for member in tasks:
        order.admit(member)
    return tasks


def test_early_answers_wait_for_those_before_them():
    order, given = ResponseOrder(), []
    first, second, third = admitted(order, given, 3)

    third.finish(TaskResult({}))
    first.finish(TaskResult({}))
    assert given == [first]
    second.finish(TaskResult({}))

    assert given == [first, second, third]


def test_dropped_task_is_told_at_once_and_waited_for_by_nobody():
    order, given = ResponseOrder(), []
    first, second, third = admitted(order, given, 3)

    second.finish(failure(TaskCancelledError()))
    third.finish(TaskResult({}))
    assert given == [second]
    first.finish(failure(TaskCancelledError()))

    assert given == [second, first, third]


def test_failing_callback_does_not_hold_the_others_back(caplog):
    order, given = ResponseOrder(), []
    bad = task(done=lambda member, result: given.fail())
    order.admit(bad)
    (good,) = admitted(order, given, 1)

    good.finish(TaskResult({}))
    bad.finish(TaskResult({}))

    assert given == [good]
    assert "callback of a finished task failed" in caplog.text


def test_answers_of_many_threads_come_in_order():
    order, given = ResponseOrder(), []
    tasks = admitted(order, given, 400)
    threads = [
        threading.Thread(target=lambda share: [member.finish(TaskResult({})) for member in share], args=(tasks[n::8],))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert given == tasks
