"""JSON values become tensors, and outputs become JSON that a page can show."""

import tracemalloc

import numpy as np
import pytest

from service.errors import InvalidArgumentError
from service.status_page.values import MOST_SHOWN, to_json, to_tensor
from tests.fakes import spec

NUMBERS = spec("x", "FP32", (-1, 2))
WHOLE = spec("n", "INT32", (-1,))
TEXTS = spec("s", "BYTES", (-1,))


def _nested(value, depth):
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "tensor", "shape", "data"),
    [
        ([[1, 2], [3, 4.5]], NUMBERS, (2, 2), [1, 2, 3, 4.5]),
        ([1, 2], NUMBERS, (1, 2), [1, 2]),
        (7, WHOLE, (1,), [7]),
        ([7.0, -1], WHOLE, (2,), [7, -1]),
        ([True], spec("b", "BOOL", (-1,)), (1,), [True]),
        ("one", TEXTS, (1,), [b"one"]),
        (["one", {"b64": "/wA="}], TEXTS, (2,), [b"one", b"\xff\x00"]),
        ([["a"], ["b"]], spec("s", "BYTES", (-1, 1)), (2, 1), [b"a", b"b"]),
        ([], TEXTS, (0,), []),
    ],
)
def test_values_become_tensors_of_the_datatype(value, tensor, shape, data):
    made = to_tensor(value, tensor)

    assert (made.name, made.datatype, made.shape) == (tensor.name, tensor.datatype.name, shape)
    assert made.data.tolist() == data
    assert made.data.dtype == tensor.datatype.dtype


@pytest.mark.parametrize(
    ("value", "tensor", "says"),
    [
        ([[1], [1, 2]], NUMBERS, "differ in length"),
        (["one"], NUMBERS, "takes numbers"),
        (None, NUMBERS, "takes numbers"),
        ([{"a": 1}], NUMBERS, "takes numbers"),
        ([1.5], WHOLE, "no INT32"),
        ([2**40], WHOLE, "no INT32"),
        ([10**30], WHOLE, "takes numbers"),
        (["one", 1], NUMBERS, "takes numbers"),
        ([[1], 2], NUMBERS, "differ in length"),
        (_nested(1, 65), NUMBERS, "too deep"),
        (_nested("one", 900), TEXTS, "too deep"),
        ([-1], spec("u", "UINT8", (-1,)), "no UINT8"),
        ([1], TEXTS, "takes texts"),
        ([["a"], "b"], TEXTS, "differ in length"),
        ([{"b64": "?"}], TEXTS, "not base64"),
        ([{"b64": 1}], TEXTS, "not base64"),
    ],
)
def test_what_makes_no_tensor_is_told_with_the_input(value, tensor, says):
    with pytest.raises(InvalidArgumentError, match=says) as raised:
        to_tensor(value, tensor)

    assert str(tensor) in str(raised.value)


def test_one_long_text_among_numbers_takes_no_memory_for_each_of_them():
    sent = ["a" * 100_000, *[1] * 1000]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentError):
            to_tensor(sent, NUMBERS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 1_000_000


def test_outputs_become_json_with_what_json_lacks_as_texts():
    assert to_json(np.array([[1.5, np.nan], [np.inf, -np.inf]], np.float32)) == [1.5, "nan", "inf", "-inf"]
    assert to_json(np.array([1, 2], np.uint8)) == [1, 2]
    assert to_json(np.array([b"one", b"\xff"], object)) == ["one", {"b64": "/w=="}]
    assert to_json(np.array(3, np.int64)) == [3]


def test_large_outputs_are_cut():
    assert len(to_json(np.zeros((MOST_SHOWN, 2)))) == MOST_SHOWN
    assert len(to_json(np.array([b"x" * 10_000], object))[0]) < 1100
