import threading

import numpy as np

from batching import TaskCancelledError, TaskResult
from batching.cut import cut, submitted
from batching.task import failure
from tests.batching.tasks import Answers, double, task


def answer(part):
    part.finish(TaskResult(double(part.key, part.inputs, part.outputs), batch_size=part.size))


def test_parts_that_end_in_any_order_are_joined_in_theirs():
    answers = Answers()
    whole = task(size=7, done=answers)
    parts = [cut(whole, size) for size in (3, 3, 1)]
    assert all(submitted(part) is whole for part in parts)

    for index in (2, 0, 1):
        assert whole not in answers.results
        answer(parts[index])

    assert answers.wait(whole)[0].outputs["y"][:, 0].tolist() == [0, 2, 4, 6, 8, 10, 12]


def test_first_error_decides_and_later_parts_do_not_matter():
    answers = Answers()
    whole = task(size=6, done=answers)
    parts = [cut(whole, 2) for _ in range(3)]
    answer(parts[0])
    parts[1].finish(failure(TaskCancelledError("first")))
    parts[2].finish(failure(TaskCancelledError("second")))

    assert [str(result.error) for result in answers.results[whole]] == ["first"]


def test_only_one_thread_may_claim_the_whole():
    whole = task(size=6)
    parts = [cut(whole, 2) for _ in range(3)]
    claims = []
    threads = [threading.Thread(target=lambda part: claims.append(part.claim_whole()), args=(part,)) for part in parts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(claims) == [False, False, True]


def test_parts_that_do_not_fit_are_claimed_once_to_be_run_whole():
    answers = Answers()
    whole = task(size=2, done=answers)
    parts = [cut(whole, 1) for _ in range(2)]
    for width, part in enumerate(parts):
        part.finish(TaskResult({"y": np.zeros((1, width))}))

    assert answers.results == {}
    assert [part.claim_unjoinable() for part in parts] == [True, False]


def test_rows_of_parts_are_views():
    whole = task(size=4)

    assert np.shares_memory(cut(whole, 3).inputs["x"], whole.inputs["x"])
