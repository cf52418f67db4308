import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batching import DeadlineError, Joining, QueueOptions, RowsMismatchError, RunError
from batching.backlog import Backlog
from batching.batch import batch_of
from batching.processor import Processor
from tests.batching.tasks import OPTIONS, Answers, double, task


def process(batch, run=double, observe=None):
    return Processor(run, observe, withdraw=lambda task: None).process(batch)


def batch(*tasks):
    return batch_of(tasks, by_rows=True)


def test_record_tells_what_was_run():
    records = []

    returned = process(batch(task(size=2), task(size=3)), observe=records.append)

    assert returned == records
    (record,) = records
    assert (record.key, record.options, record.size, record.num_tasks) == (("double",), OPTIONS, 5, 2)
    assert (record.error, record.mismatch, record.is_retry) == (None, None, False)


def test_union_of_wanted_outputs_is_run_and_each_task_gets_its_own():
    asked = []

    def run(key, inputs, outputs):
        asked.append(outputs)
        return double(key, inputs, outputs)

    answers = Answers()
    first, second = task(done=answers), task(done=answers)
    first.outputs, second.outputs = ("z",), ("y", "z")
    process(batch(first, second), run)

    assert asked == [("y", "z")]
    assert [list(result.outputs) for result in answers.wait(first, second)] == [["z"], ["y", "z"]]


def test_missing_output_is_an_error_that_names_it():
    answers = Answers()
    asked = task(done=answers)
    process(batch(asked), lambda key, inputs, outputs: {})

    (result,) = answers.wait(asked)
    assert isinstance(result.error, RunError)
    assert "y" in str(result.error)


def test_output_that_is_no_array_is_an_error():
    answers = Answers()
    asked = task(done=answers)
    process(batch(asked), lambda key, inputs, outputs: {"y": 3})

    assert isinstance(answers.wait(asked)[0].error, AttributeError)


def test_batch_is_padded_with_its_first_row_and_answers_are_not():
    options = QueueOptions(max_batch_size=8, allowed_batch_sizes=(2, 4, 8))
    runs = []

    def run(key, inputs, outputs):
        runs.append(inputs["x"][:, 0].tolist())
        return double(key, inputs, outputs)

    answers = Answers()
    tasks = [task(5, size=2, options=options, done=answers), task(9, options=options, done=answers)]
    (record,) = process(batch(*tasks), run)

    assert runs == [[5, 6, 9, 5]]
    assert (record.size, record.padded_size) == (3, 4)
    assert [result.outputs["y"][:, 0].tolist() for result in answers.wait(*tasks)] == [[10, 12], [18]]
    assert answers.results[tasks[0]][0].batch_size == 3


def test_padded_task_whose_outputs_are_not_by_rows_is_run_again_without_padding():
    options = QueueOptions(max_batch_size=8, allowed_batch_sizes=(8,))
    answers = Answers()
    asked = task(1, size=3, options=options, done=answers)
    process(batch(asked), lambda key, inputs, outputs: {"y": inputs["x"].sum(keepdims=True)})

    assert answers.wait(asked)[0].outputs["y"].item() == 6


def test_joint_run_that_must_not_be_repeated_fails_for_all():
    options = QueueOptions(max_batch_size=8, retry_failed=False)
    answers = Answers()
    tasks = [task(number, options=options, done=answers) for number in (1, -1)]
    (record,) = process(batch(*tasks))

    assert [str(result.error) for result in answers.wait(*tasks)] == ["negative", "negative"]
    assert record.error is not None


def test_outputs_that_cannot_be_divided_fail_where_no_run_may_be_repeated():
    options = QueueOptions(max_batch_size=8, retry_failed=False)
    answers = Answers()
    tasks = [task(number, options=options, done=answers) for number in (1, 2)]
    process(batch(*tasks), lambda key, inputs, outputs: {"y": np.zeros(1)})

    assert all(isinstance(result.error, RowsMismatchError) for result in answers.wait(*tasks))


def test_callers_of_a_failing_constant_share_its_error():
    options = QueueOptions(max_batch_size=1, joining=Joining.SHARE)
    answers = Answers()
    tasks = [task(-1, options=options, done=answers) for _ in range(5)]
    records = process(batch_of(tasks, by_rows=False))

    assert len(records) == 1
    assert all(result.error is not None for result in answers.wait(*tasks))


def test_member_whose_deadline_passed_is_not_run_again():
    deadline = time.monotonic() + 0.02
    runs = []

    def run(key, inputs, outputs):
        runs.append(len(inputs["x"]))
        while time.monotonic() < deadline:  # the first run lasts until the deadline, whatever the machine does
            pass
        return double(key, inputs, outputs)

    answers = Answers()
    late, guilty, good = task(done=answers, deadline=deadline), task(-1, done=answers), task(2, done=answers)
    process(batch(late, guilty, good), run)

    assert isinstance(answers.wait(late)[0].error, DeadlineError)
    assert runs == [3, 1, 1]
    assert answers.wait(good)[0].outputs["y"].item() == 4


@pytest.mark.parametrize("num_tasks", [2, 5, 64])
def test_isolating_one_bad_task_is_cheap_and_all_bad_ones_is_bounded(num_tasks):
    options = QueueOptions(max_batch_size=64)
    one_bad = [task(-1 if number == num_tasks // 2 else 1, options=options) for number in range(num_tasks)]
    all_bad = [task(-1, options=options) for _ in range(num_tasks)]

    assert len(process(batch(*one_bad))) <= 2 * num_tasks.bit_length() + 2
    assert len(process(batch(*all_bad))) < 2 * num_tasks + 1


REQUESTS = st.lists(
    st.tuples(st.integers(0, 20), st.sampled_from(["good", "good", "good", "bad"])), min_size=1, max_size=12
)


def run_all(backlog, run, options, after_first_batch):
    """Run what waits, batch by batch, as a worker would."""
    processor = Processor(run, None, lambda member: backlog.remove(member, 0.0))
    while (taken := backlog.take(0.0)) is not None:
        for record in processor.process(taken):
            if record.mismatch is not None:
                backlog.lane(options).stop_joining("mismatch", 0.0)
        after_first_batch()


@settings(deadline=None)
@given(
    requests=REQUESTS,
    by_rows=st.booleans(),
    allowed=st.sampled_from([(), (8,), (1, 2, 4, 8)]),
    cancelled=st.integers(0, 30),
)
def test_every_task_is_answered_once_and_as_if_it_were_alone(requests, by_rows, allowed, cancelled):
    """Joining, cutting, padding, cancelling and failures of others leave no trace in an answer."""
    options = QueueOptions(max_batch_size=8, allowed_batch_sizes=allowed)
    backlog, answers, expected = Backlog(), Answers(), {}

    def answer(rows):
        if (rows < 0).any():
            raise ValueError("negative")
        return rows * 2 if by_rows else rows.sum(axis=0, keepdims=True)

    def cancel():
        if cancelled < len(members) and backlog.remove(members[cancelled], 0.0):
            assert members[cancelled].assembly is None or members[cancelled].assembly.close()
            del expected[members[cancelled]]

    members = [
        task(100 * number, size=size, options=options, done=answers) for number, (size, _) in enumerate(requests)
    ]
    for member, (size, kind) in zip(members, requests, strict=True):
        if kind == "bad" and size:
            member.inputs["x"][size // 2] = -1
        expected[member] = member.inputs["x"]
        backlog.add(member, 0.0)
    run_all(backlog, lambda key, inputs, outputs: {"y": answer(inputs["x"])}, options, cancel)

    assert set(answers.results) == set(expected)
    for member, rows in expected.items():
        (result,) = answers.results[member]
        if (rows < 0).any():
            assert str(result.error) == "negative"
        else:
            np.testing.assert_array_equal(result.outputs["y"], answer(rows))


def test_tasks_of_different_lengths_are_joined_where_padding_is_asked_for():
    options = QueueOptions(max_batch_size=8, pad_variable_length_inputs={"x": 0.0}, trimmed_outputs={"y": "x"})
    answers = Answers()
    short, long = task(options=options, done=answers), task(options=options, done=answers)
    short.inputs, long.inputs = {"x": np.full((1, 2), 3.0)}, {"x": np.full((1, 4), 5.0)}
    (record,) = process(batch(short, long))

    assert record.size == 2
    results = answers.wait(short, long)
    assert [result.outputs["y"].tolist() for result in results] == [[[6, 6]], [[10, 10, 10, 10]]]


def test_parts_whose_outputs_have_different_widths_are_run_again_in_one_piece():
    """As where strings are turned into a matrix as wide as the longest of them."""
    options = QueueOptions(max_batch_size=2)
    backlog, answers = Backlog(), Answers()

    def run(key, inputs, outputs):
        return {"y": np.zeros((len(inputs["x"]), int(inputs["x"].max()) + 1))}

    asked = task(size=5, options=options, done=answers)
    backlog.add(asked, 0.0)
    run_all(backlog, run, options, after_first_batch=lambda: None)

    (result,) = answers.results[asked]
    assert result.outputs["y"].shape == (5, 5)
    assert result.batch_size == 5


def test_rest_of_a_cut_task_is_not_run_once_a_part_has_failed():
    options = QueueOptions(max_batch_size=2)
    backlog, answers, runs = Backlog(), Answers(), []

    def run(key, inputs, outputs):
        runs.append(inputs)
        return double(key, inputs, outputs)

    asked = task(-1, size=9, options=options, done=answers)
    backlog.add(asked, 0.0)
    run_all(backlog, run, options, after_first_batch=lambda: None)

    assert len(runs) == 1
    assert [str(result.error) for result in answers.results[asked]] == ["negative"]


def test_task_that_was_cut_before_its_signature_stopped_joining_is_run_whole():
    """Its first part had as many rows as was put in, but only by chance."""
    options = QueueOptions(max_batch_size=2)
    backlog, answers, runs = Backlog(), Answers(), []

    def run(key, inputs, outputs):
        runs.append(len(inputs["x"]))
        return {"y": inputs["x"][::-1]}

    asked = task(size=5, options=options, done=answers)
    backlog.add(asked, 0.0)
    run_all(backlog, run, options, after_first_batch=lambda: backlog.lane(options).stop_joining("test", 0.0))

    (result,) = answers.results[asked]
    assert runs == [2, 5]
    assert result.outputs["y"][:, 0].tolist() == [4, 3, 2, 1, 0]
