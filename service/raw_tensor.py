"""Tensors in the protocol's raw form: little-endian elements in C order, and length-prefixed BYTES.

Decoding makes views where it can: an array of fixed-size elements shares the memory of the message it came in.
"""

import math
import struct
from typing import Final, Protocol

import numpy as np

from service.datatypes import BYTES, Datatype
from service.errors import InvalidArgumentError

_LENGTH: Final = struct.Struct("<I")
_WIDTHS: Final = (8, 16, 32, 64)


class Stored(Protocol):
    """Raw bytes that lie elsewhere and are read only once their number is known to be right."""

    def __len__(self) -> int:
        """Return the number of bytes."""
        ...

    def read(self) -> bytes | memoryview:
        """Return the bytes. Raises InvalidArgumentError when they are no longer there."""
        ...


def element_count(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a shape without negative sizes; exact, however large."""
    return math.prod(shape)


def decode_fixed(datatype: Datatype, shape: tuple[int, ...], data: bytes | memoryview | Stored) -> np.ndarray:
    """View raw bytes as an array.

    Args:
        datatype: any but BYTES.
        shape: no negative sizes.
        data: exactly as many bytes as the shape needs.

    Returns:
        A read-only array of the given shape that shares memory with the bytes; BOOL is copied.

    Raises:
        InvalidArgumentError: the number of bytes is not what datatype and shape need, or the shape has more axes or
            larger sizes than an array can have. The text says both numbers and, when elements of twice or half the
            size would fit, that the data may be of another width.
    """
    expected = element_count(shape) * datatype.itemsize
    if len(data) != expected:
        raise InvalidArgumentError(f"Expected {expected}, got {len(data)}{_width_hint(datatype, expected, len(data))}")
    raw = data if isinstance(data, bytes | memoryview) else data.read()
    # Inside the model a boolean of another byte than 0 and 1 has no defined meaning; any byte but 0 is true.
    boolean = datatype.name == "BOOL"
    array = np.frombuffer(raw, np.uint8) != 0 if boolean else np.frombuffer(raw, datatype.dtype)
    return _reshape(array, shape)


def _width_hint(datatype: Datatype, expected: int, got: int) -> str:
    bits = 8 * datatype.itemsize
    for width in (2 * bits, bits // 2):
        if width in _WIDTHS and got * bits == expected * width and datatype.name != "BOOL":
            return f" (were {width}-bit elements sent for {datatype.name}?)"
    return ""


def _reshape(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Reshape a flat array; the right number of elements does not yet make a shape that an array can have."""
    try:
        return array.reshape(shape)
    except ValueError as error:
        raise InvalidArgumentError(f"no tensor can have this shape: {error}") from error


def decode_bytes(shape: tuple[int, ...], data: bytes) -> np.ndarray:
    """Split length-prefixed elements; each is a little-endian 32-bit length followed by that many bytes.

    Args:
        shape: no negative sizes.
        data: exactly as many elements as the shape has.

    Returns:
        An object array of ``bytes`` of the given shape. Elements are copied and never decoded.

    Raises:
        InvalidArgumentError: a prefix or an element is cut short, or there are too few or too many elements.
    """
    count = element_count(shape)
    equal = _split_equal(count, data)
    return _reshape(equal, shape) if equal is not None else from_elements(_split(count, data), shape)


def _split_equal(count: int, data: bytes) -> np.ndarray | None:
    """Split elements that all have one length, or return None; identifiers, hashes and images often have one."""
    size, rest = divmod(len(data), count) if count else (0, 1)
    # NumPy has no elements without bytes.
    if rest or size <= _LENGTH.size:
        return None
    records = np.frombuffer(data, np.dtype([("length", "<u4"), ("element", f"V{size - _LENGTH.size}")]))
    if not (records["length"] == size - _LENGTH.size).all():
        return None
    return records["element"].astype(BYTES.dtype)


def _split(count: int, data: bytes) -> list[bytes]:
    elements: list[bytes] = []
    append, length_at = elements.append, _LENGTH.unpack_from
    offset, end = 0, len(data)
    while offset < end and len(elements) < count:
        start = offset + 4
        if start > end:
            raise InvalidArgumentError(_cut_prefix(end - offset))
        offset = start + length_at(data, offset)[0]
        if offset > end:
            raise InvalidArgumentError(
                f"incomplete string data: expecting string of length {offset - start} but only {end - start} bytes "
                "available. Each element is a 4-byte little-endian length followed by its bytes"
            )
        append(data[start:offset])
    if offset < end:
        raise InvalidArgumentError(_surplus(end - offset, count))
    return elements


def _cut_prefix(available: int) -> str:
    return (
        f"incomplete string length indicator: expecting 4 bytes but only {available} bytes available. "
        "Each element is a 4-byte little-endian length followed by its bytes"
    )


def _surplus(available: int, count: int) -> str:
    if available < 4:
        return _cut_prefix(available)
    return f"unexpected number of string elements: expecting {count}, but {available} bytes follow the last"


def from_elements(elements: list[bytes], shape: tuple[int, ...]) -> np.ndarray:
    """Make an object array of ``bytes``.

    Raises:
        InvalidArgumentError: the number of elements is not what the shape needs, or no array can have the shape.
    """
    count = element_count(shape)
    if len(elements) != count:
        raise InvalidArgumentError(f"expected {count} string elements, got {len(elements)}")
    array = np.empty(count, BYTES.dtype)
    array[:] = elements
    return _reshape(array, shape)


def decode(datatype: Datatype, shape: tuple[int, ...], data: bytes | memoryview | Stored | np.ndarray) -> np.ndarray:
    """Turn what came for one input into an array of the given shape.

    Args:
        datatype: the input's datatype.
        shape: no negative sizes.
        data: raw bytes, here or elsewhere, or a flat array that a typed field held.

    Raises:
        InvalidArgumentError: the data do not fill the shape exactly.
    """
    if isinstance(data, np.ndarray):
        if datatype is BYTES:
            return from_elements(data.tolist(), shape)
        expected = element_count(shape) * datatype.itemsize
        if data.nbytes != expected:
            raise InvalidArgumentError(f"Expected {expected}, got {data.nbytes}")
        return _reshape(data, shape)
    if datatype is not BYTES:
        return decode_fixed(datatype, shape, data)
    # Elements are bytes of their own, cut out of bytes.
    return decode_bytes(shape, bytes(data if isinstance(data, bytes | memoryview) else data.read()))


def encode_view(array: np.ndarray) -> memoryview:
    """Return an array's raw form as ``encode`` does, without a copy where the array's own memory has that form."""
    if array.dtype == BYTES.dtype:
        return memoryview(encode(array))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def encode(array: np.ndarray) -> bytes:
    """Return an array's raw form: elements in C order, those of object arrays (``bytes``) with their lengths."""
    return _join(array.ravel().tolist()) if array.dtype == BYTES.dtype else array.tobytes()


def _join(elements: list[bytes]) -> bytes:
    """Return elements with their lengths; each length that occurs is packed once."""
    lengths = list(map(len, elements))
    packed = {length: _LENGTH.pack(length) for length in set(lengths)}
    if len(packed) == 1:
        return packed[lengths[0]].join([b"", *elements])
    parts = [b""] * (2 * len(elements))
    parts[::2] = map(packed.__getitem__, lengths)
    parts[1::2] = elements
    return b"".join(parts)
