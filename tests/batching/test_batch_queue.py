from batching import Joining, QueueOptions
from batching.batch_queue import BatchQueue
from tests.batching.tasks import OPTIONS, task

DELAYED = QueueOptions(max_batch_size=8, max_queue_delay_s=2.0)


def queue_of(*tasks, options=OPTIONS, joins=True):
    queue = BatchQueue(("double",), options, joins=joins)
    for number, member in enumerate(tasks):
        member.queued_at = float(number)
        queue.add(member)
    return queue


def test_batch_takes_the_first_tasks_that_fit():
    tasks = [task(size=size) for size in (3, 5, 1)]
    queue = queue_of(*tasks)

    assert list(queue.take(9.0).tasks) == tasks[:2]
    assert list(queue.take(9.0).tasks) == tasks[2:]
    assert (len(queue), queue.size) == (0, 0)


def test_task_that_does_not_fit_is_not_overtaken():
    tasks = [task(size=size) for size in (5, 5, 1)]
    queue = queue_of(*tasks)

    assert list(queue.take(9.0).tasks) == tasks[:1]
    assert list(queue.take(9.0).tasks) == tasks[1:]


def test_queue_without_delay_is_ready_at_once():
    assert queue_of(task()).ready_at == float("-inf")


def test_underfull_batch_is_ready_after_the_delay_of_its_first_task():
    queue = queue_of(task(), task(), options=DELAYED)

    assert queue.ready_at == 2.0


def test_full_batch_is_ready_at_once():
    assert queue_of(task(size=5), task(size=3), options=DELAYED).ready_at == float("-inf")


def test_removing_a_task_makes_a_full_batch_wait_again():
    tasks = [task(size=5), task(size=3)]
    queue = queue_of(*tasks, options=DELAYED)
    queue.remove(tasks[0])

    assert queue.ready_at == 3.0
    assert tasks[0].queue is None


def test_oversize_task_is_cut_to_fill_batches():
    small, large, last = task(100, size=3), task(size=21), task(200, size=1)
    queue = queue_of(small, large, last)

    batches = [queue.take(9.0) for _ in range(3)]

    assert [batch.size for batch in batches] == [8, 8, 8]
    rows = [row for batch in batches for part in batch.tasks for row in part.inputs["x"][:, 0]]
    assert rows == [100, 101, 102, *range(21)]
    assert list(queue.take(9.0).tasks) == [last]
    assert large.queue is None


def test_shared_tasks_are_taken_together_however_many():
    options = QueueOptions(max_batch_size=2, joining=Joining.SHARE)
    queue = queue_of(*(task(options=options) for _ in range(5)), options=options)

    batch = queue.take(9.0)

    assert len(batch.tasks) == 5
    assert batch.size == 1


def test_queue_that_does_not_join_gives_single_tasks():
    tasks = [task(size=2), task(size=30)]
    queue = queue_of(*tasks, joins=False)

    assert [list(queue.take(9.0).tasks) for _ in range(2)] == [[tasks[0]], [tasks[1]]]


def test_waiting_starts_anew_when_a_task_comes_to_the_front():
    queue = queue_of(task(size=8), task(size=8))
    assert queue.front == (0, 0.0)

    queue.take(5.0)

    assert queue.front == (0, 5.0)
