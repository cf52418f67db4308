import re

import numpy as np
import pytest

from clients.demo.calls import Call, Request, find_fault, plan

ROWS = 23


@pytest.fixture
def calls():
    ids = np.arange(ROWS, dtype=np.float32)
    return [
        Call("double", {"x": ids}, {"y": 2 * ids}),
        Call("negate", {"x": ids}, {"y": -ids}),
        Call("constant", {}, {"y": np.asarray(7)}),
    ]


def test_plan_asks_about_every_row_once_in_each_pass(calls):
    requests = plan(calls, passes=3, max_rows=5, random=np.random.default_rng(0))
    for call in calls[:2]:
        asked = np.concatenate([request.inputs["x"] for request in requests if request.call is call])
        assert np.array_equal(np.sort(asked), np.repeat(np.arange(ROWS), 3))


def test_plan_keeps_to_the_row_limit_and_uses_every_size_up_to_it(calls):
    requests = plan(calls, passes=5, max_rows=4, random=np.random.default_rng(0))
    assert {len(request.inputs["x"]) for request in requests if request.call.inputs} == {1, 2, 3, 4}


def test_plan_mixes_signatures_and_is_the_same_each_time(calls):
    names, again = (
        [request.call.signature for request in plan(calls, 2, 5, np.random.default_rng(0))] for _ in range(2)
    )
    assert names == again
    assert names != sorted(names)


def test_plan_asks_calls_without_inputs_too(calls):
    requests = plan(calls, passes=2, max_rows=5, random=np.random.default_rng(0))
    constants = [request for request in requests if request.call.signature == "constant"]
    assert len(constants) == 2 * (ROWS // 5)
    assert constants[0].inputs == {}
    assert constants[0].expected == {"y": np.asarray(7)}


def test_request_pairs_the_rows_it_sends_with_the_rows_it_expects(calls):
    request = Request(calls[0], slice(3, 5))
    assert request.inputs["x"].tolist() == [3, 4]
    assert request.expected["y"].tolist() == [6, 8]
    assert str(request) == "double[3:5]"


RIGHT = {"class": np.array([1, 2]), "score": np.array([0.5, 0.9], np.float32)}


def test_an_answer_with_other_last_bits_is_right():
    assert find_fault(RIGHT | {"score": np.array([0.500001, 0.9], np.float32)}, RIGHT) is None


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"score": np.array([0.25, 0.9], np.float32)}, r"score\[0\] is 0.25 instead of 0.5"),
        ({"class": np.array([1, 3])}, r"class\[1\] is 3 instead of 2"),
        ({"class": np.array([1, 2], np.int32)}, r"class is int32\[2\] instead of int64\[2\]"),
        ({"class": np.array([1])}, r"class is int64\[1\] instead of int64\[2\]"),
        ({"extra": np.array([1])}, r"outputs .* instead of"),
    ],
)
def test_a_wrong_answer_is_found_and_named(change, fault):
    assert re.match(fault, find_fault(RIGHT | change, RIGHT))


def test_bytes_are_compared_exactly():
    right = {"names": np.array([b"zero", b"one"], np.object_)}
    assert find_fault({"names": np.array([b"zero", b"one"], np.object_)}, right) is None
    assert (
        find_fault({"names": np.array([b"zero", b"One"], np.object_)}, right) == "names[1] is b'One' instead of b'one'"
    )


def test_scalars_are_compared_too():
    right = {"threshold": np.asarray(0.5, np.float32)}
    assert find_fault({"threshold": np.asarray(0.5, np.float32)}, right) is None
    assert find_fault({"threshold": np.asarray(0.75, np.float32)}, right) == "threshold[] is 0.75 instead of 0.5"


def test_no_rows_are_right_when_none_were_asked_for():
    assert find_fault({"class": np.zeros(0, np.int64)}, {"class": np.zeros(0, np.int64)}) is None
