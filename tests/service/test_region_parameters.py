"""What the parameters of a tensor say about shared memory; the texts are Triton's."""

import pytest

from service.errors import InvalidArgumentError
from service.region_parameters import read_window
from service.shared_memory import WindowName

REGION = ("shared_memory_region", "string_param", "r")
SIZE = ("shared_memory_byte_size", "int64_param", 64)
OFFSET = ("shared_memory_offset", "int64_param", 8)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([], None),
        ([("binary_data", "bool_param", True), ("unset", None, None), ("memory", "string_param", "r")], None),
        ([REGION, SIZE], WindowName("r", 0, 64)),
        ([OFFSET, SIZE, REGION], WindowName("r", 8, 64)),
        ([REGION, SIZE, ("classification", "int64_param", 1)], WindowName("r", 0, 64)),
        (
            [("shared_memory_region", "string_param", ""), ("shared_memory_byte_size", "int64_param", -1)],
            WindowName("", 0, -1),
        ),
    ],
)
def test_parameters_name_a_window(parameters, expected):
    assert read_window("x", parameters) == expected


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ([REGION], "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter for"),
        ([REGION, OFFSET], "'shared_memory_byte_size' must be specified along with 'shared_memory_region' parameter"),
        ([SIZE], "'shared_memory_byte_size' can not be specified without 'shared_memory_region' parameter for"),
        ([OFFSET], "'shared_memory_offset' can not be specified without 'shared_memory_region' parameter for"),
        (
            [("shared_memory_region", "int64_param", 1), SIZE],
            "invalid value type for 'shared_memory_region' parameter for tensor 'x', expected string_param.",
        ),
        (
            [REGION, ("shared_memory_byte_size", "uint64_param", 64)],
            "invalid value type for 'shared_memory_byte_size' parameter for tensor 'x', expected int64_param.",
        ),
        (
            [REGION, SIZE, ("shared_memory_offset", "string_param", "0")],
            "invalid value type for 'shared_memory_offset' parameter for tensor 'x', expected int64_param.",
        ),
        (
            [REGION, SIZE, ("shared_memory_offset", None, None)],
            "invalid value type for 'shared_memory_offset' parameter for tensor 'x', expected int64_param.",
        ),
    ],
)
def test_half_a_window_or_another_type_is_refused(parameters, text):
    with pytest.raises(InvalidArgumentError) as caught:
        read_window("x", parameters)

    assert text in str(caught.value)
    assert "tensor 'x'" in str(caught.value)
