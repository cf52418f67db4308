from batching import Joining, QueueOptions
from batching.batch import batch_of
from tests.batching.tasks import task


def test_large_batch_is_divided_into_halves_and_a_small_one_into_single_tasks():
    tasks = [task(size=2) for _ in range(9)]
    first, second = batch_of(tasks, by_rows=True).divided()

    assert [*first.tasks, *second.tasks] == tasks
    assert [(part.size, part.by_rows) for part in (first, second)] == [(8, True), (10, True)]
    assert [list(single.tasks) for single in first.divided()] == [[member] for member in tasks[:4]]


def test_tasks_that_share_a_run_put_in_the_rows_of_one():
    options = QueueOptions(max_batch_size=4, joining=Joining.SHARE)

    assert batch_of([task(options=options) for _ in range(5)], by_rows=False).size == 1


def test_outputs_are_kept_as_asked_if_all_ask_for_the_same_and_else_sorted():
    first, second = task(), task()
    first.outputs = second.outputs = ("z", "a")
    assert batch_of([first, second], by_rows=True).outputs == ("z", "a")

    second.outputs = ("b", "a")
    assert batch_of([first, second], by_rows=True).outputs == ("a", "b", "z")


def test_only_outputs_that_are_divided_by_rows_allow_padding():
    options = QueueOptions(max_batch_size=4, allowed_batch_sizes=(4,))

    assert batch_of([task(size=3, options=options)], by_rows=True).padded_size == 4
    assert batch_of([task(size=3, options=options)], by_rows=False).padded_size == 3
