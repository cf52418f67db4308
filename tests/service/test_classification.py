"""Classes are the largest values of each row, largest first, in Triton's spelling."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import classification
from service.classification import classify, read_class_count
from service.datatypes import BYTES, DATATYPES
from service.errors import InvalidArgumentError
from tests.service.tensors import deterministic


def classes(values, count, labels=(), *, batched=False, dtype=np.float32):
    return classify(np.array(values, dtype), count, labels, batched=batched).tolist()


def test_the_largest_values_come_first_with_their_indices():
    assert classes([1, 3, 2], 2) == [b"3.000000:1", b"2.000000:2"]


def test_more_classes_than_values_are_all_of_them():
    assert classes([1, 3], 99) == [b"3.000000:1", b"1.000000:0"]


def test_equal_values_come_in_the_order_of_their_indices():
    told = classes([1, 2] * 20, 40)

    assert [int(text.split(b":")[1]) for text in told] == [*range(1, 40, 2), *range(0, 40, 2)]


@pytest.mark.parametrize(
    ("dtype", "values", "told"),
    [
        (np.uint8, [0, 255, 1], [b"255:1", b"1:2", b"0:0"]),
        (np.int8, [-128, 127, 0], [b"127:1", b"0:2", b"-128:0"]),
        (np.int64, [-(2**63), 2**63 - 1], [b"9223372036854775807:1", b"-9223372036854775808:0"]),
        (np.uint64, [0, 2**64 - 1, 2**63], [b"18446744073709551615:1", b"9223372036854775808:2", b"0:0"]),
        (np.float32, [0.1, -1e-7, 3.25], [b"3.250000:2", b"0.100000:0", b"-0.000000:1"]),
        (np.float64, [1e20, 0.1234567], [b"100000000000000000000.000000:0", b"0.123457:1"]),
        (np.float32, [np.nan, -np.inf, np.inf, 0], [b"inf:2", b"0.000000:3", b"-inf:1", b"nan:0"]),
    ],
    ids=["uint8", "int8", "int64", "uint64", "float32", "float64", "special"],
)
def test_values_are_written_in_decimal(dtype, values, told):
    assert classes(values, 9, dtype=dtype) == told


@pytest.mark.parametrize("name", ["BOOL", "FP16", "BF16", "BYTES"])
def test_other_datatypes_have_no_classes(name):
    with pytest.raises(InvalidArgumentError) as raised:
        classify(np.zeros(2, DATATYPES[name].dtype), 1, batched=False)

    assert str(raised.value) == f"class result not available for output due to unsupported type '{name}'"


def test_each_row_of_a_batch_has_its_own_classes():
    told = classes([[[1, 2], [4, 3]], [[8, 7], [6, 5]]], 2, batched=True, dtype=np.int32)

    assert told == [[b"4:2", b"3:3"], [b"8:0", b"7:1"]]


def test_without_a_batch_dimension_the_whole_array_is_one_row():
    assert classes([[1, 5, 2], [9, 0, 3]], 2) == [b"9.000000:3", b"5.000000:1"]
    assert classes(7, 2) == [b"7.000000:0"]


@pytest.mark.parametrize(
    ("shape", "batched", "told"),
    [((2, 0), True, (2, 0)), ((0, 3), True, (0, 3)), ((0,), False, (0,)), ((3,), True, (3, 1))],
)
def test_the_shape_counts_rows_and_classes(shape, batched, told):
    array = classify(np.zeros(shape, np.float32), 4, batched=batched)

    assert (array.shape, array.dtype) == (told, BYTES.dtype)


def test_a_label_follows_where_there_is_one():
    told = classes([4, 3, 2, 1], 4, (b"zero", b"", b"two words: \xff"), dtype=np.int32)

    assert told == [b"4:0:zero", b"3:1", b"2:2:two words: \xff", b"1:3"]


@pytest.mark.parametrize(
    ("shape", "count", "batched"),
    [((11,), 1, False), ((1, 11), 1, True), ((3, 4), 4, True)],
    ids=["to_sort", "to_sort_in_a_row", "to_tell"],
)
def test_too_many_elements_are_refused(shape, count, batched, monkeypatch):
    monkeypatch.setattr(classification, "_MAX_ELEMENTS", 10)

    with pytest.raises(InvalidArgumentError, match="at most 10"):
        classify(np.zeros(shape, np.float32), count, batched=batched)


def test_many_rows_may_have_few_classes_each(monkeypatch):
    monkeypatch.setattr(classification, "_MAX_ELEMENTS", 10)

    assert classify(np.zeros((10, 10), np.float32), 1, batched=True).shape == (10, 1)


@deterministic
@given(values=st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), count=st.integers(1, 50))
def test_classes_are_what_sorting_in_python_gives(values, count):
    expected = sorted(enumerate(values), key=lambda item: -item[1])[:count]

    assert classes(values, count, dtype=np.int32) == [b"%d:%d" % (value, index) for index, value in expected]


def test_the_number_of_classes_is_read_among_other_parameters():
    assert read_class_count([]) is None
    assert read_class_count([("binary_data", "bool_param", True)]) is None
    assert read_class_count([("binary_data", None, None), ("classification", "int64_param", 3)]) == 3


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
def test_a_number_of_classes_must_be_positive(value):
    with pytest.raises(InvalidArgumentError) as raised:
        read_class_count([("classification", "int64_param", value)])

    assert str(raised.value) == "invalid value for 'classification' parameter, expected >= 0"


@pytest.mark.parametrize(
    ("kind", "value"),
    [("uint64_param", 3), ("string_param", "3"), ("bool_param", True), ("double_param", 3.0), (None, None)],
)
def test_a_number_of_classes_must_be_an_int64(kind, value):
    with pytest.raises(InvalidArgumentError) as raised:
        read_class_count([("classification", kind, value)])

    assert str(raised.value) == "invalid value type for 'classification' parameter, expected int64_param"
