import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from service import raw_tensor
from service.datatypes import BYTES
from service.errors import InvalidArgumentError
from tests.service.tensors import deterministic, elements, framed, framings, shapes


@deterministic
@example(((), framed([b"a\0"])))
@example(((1,), framed([b""])))
@example(((2, 0), b""))
@given(framings())
def test_bytes_elements_survive_a_round_trip(framing):
    shape, data = framing

    array = raw_tensor.decode(BYTES, shape, data)

    assert (array.dtype, array.shape) == (BYTES.dtype, shape)
    assert {type(element) for element in array.ravel()} <= {bytes}
    assert raw_tensor.encode(array) == data


def test_elements_are_opaque_and_of_any_length():
    parts = [b"", b"\0", b"a\0", b"\0a\0\0", "h\u00e9llo \U0001f600".encode(), b"\xff\xfe", b"x" * 3_000_000]

    assert raw_tensor.decode(BYTES, (7,), framed(parts)).tolist() == parts


@deterministic
@given(st.lists(elements, min_size=1, max_size=5))
def test_the_stock_clients_framing_functions_agree(parts):
    array = raw_tensor.from_elements(parts, (len(parts),))

    assert raw_tensor.encode(array) == serialize_byte_tensor(array).item()
    assert deserialize_bytes_tensor(raw_tensor.encode(array)).tolist() == parts


def agrees(shape, data):
    """Whether data are refused or mean exactly themselves; any other error passes through and fails the test."""
    try:
        array = raw_tensor.decode(BYTES, shape, data)
    except InvalidArgumentError:
        return True
    return array.shape == shape and raw_tensor.encode(array) == data


@deterministic
@given(shapes, st.binary(max_size=40))
def test_any_bytes_are_refused_or_mean_exactly_themselves(shape, data):
    assert agrees(shape, data)


@settings(deterministic, max_examples=300)
@given(framings(), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=4))
def test_overwritten_framing_is_refused_or_means_exactly_itself(framing, writes):
    shape, data = framing
    mutated = bytearray(data)
    for position, byte in writes if mutated else ():
        mutated[position % len(mutated)] = byte

    assert agrees(shape, bytes(mutated))


@deterministic
@given(framings().filter(lambda framing: framing[1]), st.integers(0, 10**6))
def test_framing_that_is_cut_anywhere_is_refused(framing, position):
    shape, data = framing

    with pytest.raises(InvalidArgumentError):
        raw_tensor.decode(BYTES, shape, data[: position % len(data)])


@deterministic
@given(framings(), st.binary(min_size=1, max_size=9))
def test_framing_with_anything_behind_it_is_refused(framing, surplus):
    shape, data = framing

    with pytest.raises(InvalidArgumentError):
        raw_tensor.decode(BYTES, shape, data + surplus)


@deterministic
@given(framings().filter(lambda framing: framing[1]), st.integers(1, 2**32 - 1))
def test_a_wrong_length_of_the_last_element_is_refused(framing, change):
    shape, data = framing
    *_, last = raw_tensor.decode(BYTES, shape, data).ravel()
    position = len(data) - len(last) - 4
    wrong = struct.pack("<I", (len(last) + change) % 2**32)

    with pytest.raises(InvalidArgumentError):
        raw_tensor.decode(BYTES, shape, data[:position] + wrong + data[position + 4 :])


# The faults of framing that a real Triton was asked about, with what it says and we say too.
@pytest.mark.parametrize(
    ("shape", "data", "text"),
    [
        ((1, 1), b"\1\0\0", "incomplete string length indicator: expecting 4 bytes but only 3 bytes available"),
        ((1, 1), struct.pack("<I", 10) + b"abc", "expecting string of length 10 but only 3 bytes available"),
        ((1, 1), b"\xff" * 4 + b"abc", "expecting string of length 4294967295 but only 3 bytes available"),
        ((1, 1), struct.pack("<I", 2**31) + b"abc", "expecting string of length 2147483648 but only 3 bytes available"),
        ((1, 2), framed([b"a"]) + b"\1\0", "expecting 4 bytes but only 2 bytes available"),
        ((1, 3), framed([b"a", b"b"]), "expected 3 string elements, got 2"),
        ((1, 1), framed([b"a", b"b"]), "unexpected number of string elements: expecting 1"),
        ((1, 1), framed([b"a"]) + b"\0", "expecting 4 bytes but only 1 bytes available"),
        ((1, 1), b"", "expected 1 string elements, got 0"),
        ((1, 0), framed([b"a"]), "unexpected number of string elements: expecting 0"),
        ((2**62, 2**62), framed([b"a"]), f"expected {2**124} string elements, got 1"),
    ],
)
def test_faulty_framing_is_described_as_triton_describes_it(shape, data, text):
    with pytest.raises(InvalidArgumentError) as caught:
        raw_tensor.decode(BYTES, shape, data)

    assert text in str(caught.value)


def test_a_prefix_of_zero_is_an_empty_element():
    assert raw_tensor.decode(BYTES, (1, 1), b"\0\0\0\0").tolist() == [[b""]]


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_flat_array_of_another_number_of_elements_is_refused(count):
    with pytest.raises(InvalidArgumentError, match=f"expected 3 string elements, got {count}"):
        raw_tensor.decode(BYTES, (1, 3), np.array([b"a"] * count, object))
