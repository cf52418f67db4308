import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import InferInput

from service import raw_tensor
from service.datatypes import BYTES, DATATYPES
from service.errors import InvalidArgumentError
from tests.service.tensors import arrays, deterministic, framed, raw_tensors, shapes

every_datatype = pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
every_fixed_datatype = pytest.mark.parametrize(
    "datatype",
    [datatype for datatype in DATATYPES.values() if datatype is not BYTES],
    ids=lambda datatype: datatype.name,
)


@every_fixed_datatype
@deterministic
@given(draw=st.data())
def test_fixed_elements_survive_a_round_trip_bit_for_bit(datatype, draw):
    shape, data = draw.draw(raw_tensors(datatype))

    array = raw_tensor.decode(datatype, shape, data)

    assert isinstance(array, np.ndarray)
    assert (array.dtype, array.shape) == (datatype.dtype, shape)
    assert raw_tensor.encode(array) == data


@every_datatype
@deterministic
@given(draw=st.data())
def test_the_stock_client_writes_and_reads_the_same_bytes(datatype, draw):
    array = draw.draw(arrays(datatype))

    sent = InferInput("x", list(array.shape), datatype.name).set_data_from_numpy(array)

    assert sent._get_content() == raw_tensor.encode(array)


@every_fixed_datatype
@deterministic
@given(shape=shapes, size=st.integers(0, 600))
def test_a_wrong_number_of_bytes_is_refused_with_both_numbers(datatype, shape, size):
    expected = math.prod(shape) * datatype.itemsize
    if size == expected:
        size += 1

    with pytest.raises(InvalidArgumentError) as caught:
        raw_tensor.decode(datatype, shape, b"\0" * size)

    assert str(caught.value).startswith(f"Expected {expected}, got {size}")


@pytest.mark.parametrize(
    ("name", "shape", "size", "hint"),
    [
        ("FP32", (2, 3), 48, "were 64-bit elements sent for FP32?"),
        ("FP32", (2, 3), 12, "were 16-bit elements sent for FP32?"),
        ("INT32", (3,), 24, "were 64-bit elements sent for INT32?"),
        ("UINT8", (3,), 6, "were 16-bit elements sent for UINT8?"),
        ("INT64", (5,), 20, "were 32-bit elements sent for INT64?"),
    ],
)
def test_a_size_that_is_twice_or_half_the_right_one_hints_at_the_width(name, shape, size, hint):
    with pytest.raises(InvalidArgumentError) as caught:
        raw_tensor.decode(DATATYPES[name], shape, b"\0" * size)

    assert hint in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape", "size"),
    [
        ("FP64", (2,), 32),
        ("UINT8", (2,), 1),
        ("UINT8", (1,), 0),
        ("UINT8", (3,), 1),
        ("BOOL", (2,), 4),
        ("FP32", (0,), 4),
    ],
    ids=["128_bits", "4_bits", "no_bits", "odd", "bool", "no_elements"],
)
def test_no_width_is_hinted_at_that_no_datatype_has(name, shape, size):
    with pytest.raises(InvalidArgumentError) as caught:
        raw_tensor.decode(DATATYPES[name], shape, b"\0" * size)

    assert "-bit elements" not in str(caught.value)


@every_datatype
@pytest.mark.parametrize("shape", [(2**40, 2**40), (2**62, 4), (2**63 - 1,) * 64], ids=["2^80", "2^64", "(2^63-1)^64"])
def test_a_shape_whose_size_would_wrap_is_refused(datatype, shape):
    with pytest.raises(InvalidArgumentError):
        raw_tensor.decode(datatype, shape, b"")


@every_datatype
@pytest.mark.parametrize("shape", [(0, 2**62, 2**62), (2**63 - 1, 0, 2), (0,) * 65], ids=["sizes", "size", "axes"])
@pytest.mark.parametrize("typed", [False, True], ids=["raw", "typed"])
def test_an_empty_shape_that_no_array_can_have_is_refused(datatype, shape, typed):
    with pytest.raises(InvalidArgumentError, match="no tensor can have this shape"):
        raw_tensor.decode(datatype, shape, np.empty(0, datatype.dtype) if typed else b"")


@pytest.mark.parametrize("name", ["FP32", "UINT8", "BOOL"])
def test_more_axes_than_an_array_can_have_are_refused(name):
    datatype = DATATYPES[name]

    with pytest.raises(InvalidArgumentError, match="no tensor can have this shape"):
        raw_tensor.decode(datatype, (1,) * 65, b"\0" * datatype.itemsize)


@every_fixed_datatype
@pytest.mark.parametrize("shape", [(), (6,), (2, 3), (0, 3)])
def test_a_flat_array_takes_the_shape(datatype, shape):
    flat = np.ones(math.prod(shape), datatype.dtype)

    array = raw_tensor.decode(datatype, shape, flat)

    assert (array.dtype, array.shape) == (datatype.dtype, shape)


@pytest.mark.parametrize(
    ("count", "text"), [(2, "Expected 12, got 8"), (4, "Expected 12, got 16"), (0, "Expected 12, got 0")]
)
def test_a_flat_array_of_another_size_is_refused(count, text):
    with pytest.raises(InvalidArgumentError, match=text):
        raw_tensor.decode(DATATYPES["INT32"], (1, 3), np.zeros(count, np.int32))


@pytest.mark.parametrize("name", ["FP32", "INT64", "UINT8", "BF16"])
def test_fixed_elements_are_viewed_and_cannot_be_written(name):
    data = bytes(range(16))
    array = raw_tensor.decode(DATATYPES[name], (16 // DATATYPES[name].itemsize,), data)

    assert np.shares_memory(array, np.frombuffer(data, np.uint8))
    assert not array.flags.writeable


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_any_byte_but_zero_is_true(shape):
    array = raw_tensor.decode(DATATYPES["BOOL"], shape, b"\0\1\2\xff")

    assert array.ravel().tolist() == [False, True, True, True]
    assert raw_tensor.encode(array) == b"\0\1\1\1"


def test_a_boolean_scalar_is_an_array():
    array = raw_tensor.decode(DATATYPES["BOOL"], (), b"\2")

    assert isinstance(array, np.ndarray)
    assert (array.shape, array.tolist()) == ((), True)


@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.int16).reshape(2, 3, 4).transpose(2, 0, 1),
        np.arange(24, dtype=np.float64)[::-2],
        np.broadcast_to(np.float32(1.5), (3, 2)),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.array([[b"a", b"bb"], [b"", b"\0"]], object).T,
    ],
    ids=["transposed", "strided", "broadcast", "fortran", "bytes"],
)
def test_elements_are_written_in_c_order_however_they_lie_in_memory(array):
    assert raw_tensor.encode(array) == raw_tensor.encode(array.copy(order="C"))


@pytest.mark.parametrize("name", ["FP16", "FP32", "FP64", "BF16"])
def test_special_floats_keep_their_bits(name):
    datatype = DATATYPES[name]
    signed = {2: np.uint16, 4: np.uint32, 8: np.uint64}[datatype.itemsize]
    quiet_bits = np.array([np.nan, np.inf, -np.inf, -0.0], datatype.dtype).view(signed)
    bits = np.concatenate([quiet_bits, quiet_bits[:1] + signed(1), quiet_bits[1:2] + signed(1), [signed(1)]])

    array = raw_tensor.decode(datatype, (7,), bits.tobytes())

    assert raw_tensor.encode(array) == bits.tobytes()


@pytest.mark.parametrize(("shape", "count"), [((), 1), ((0,), 0), ((3, 0, 2**62), 0), ((2**40, 2**40), 2**80)])
def test_the_number_of_elements_is_exact(shape, count):
    assert raw_tensor.element_count(shape) == count


@pytest.mark.parametrize("length", [0, 1, 3, 4, 900])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_elements_of_one_length_are_plain_bytes_as_all_others(length, count):
    elements = [(bytes([index]) * length)[:-1] + b"\0" * (length > 0) for index in range(count)]

    array = raw_tensor.decode(BYTES, (count,), framed(elements))

    assert array.tolist() == elements
    assert {type(element) for element in array.tolist()} == {bytes}
    assert raw_tensor.encode(array) == framed(elements)


def test_elements_whose_size_only_on_average_is_one_length_are_split_as_they_say():
    elements = [b"abcd", b"", b"ab"]

    assert raw_tensor.decode(BYTES, (3,), framed(elements)).tolist() == elements
    assert raw_tensor.encode(raw_tensor.decode(BYTES, (3,), framed(elements))) == framed(elements)
