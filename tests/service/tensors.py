"""Random tensors and their raw form, for tests that must hold for all of them."""

import math
import struct

from hypothesis import settings
from hypothesis import strategies as st

from service import raw_tensor
from service.datatypes import BYTES

deterministic = settings(derandomize=True, deadline=None)
shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)
elements = st.binary(max_size=6) | st.sampled_from([b"\0", b"a\0", b"\0a\0\0", b"\xff\xfe", "h\u00e9".encode()])


def framed(parts):
    """Write elements as the protocol wants them, independently of the code under test."""
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


@st.composite
def framings(draw):
    """A shape and the raw form of as many BYTES elements as it has."""
    shape = draw(shapes)
    count = math.prod(shape)
    return shape, framed(draw(st.lists(elements, min_size=count, max_size=count)))


@st.composite
def raw_tensors(draw, datatype):
    """A shape and the raw form of a tensor of that shape."""
    if datatype is BYTES:
        return draw(framings())
    shape = draw(shapes)
    size = math.prod(shape) * datatype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    return shape, bytes(byte & 1 for byte in data) if datatype.name == "BOOL" else data


def arrays(datatype):
    """An array of a datatype; its raw form has been through the decoder."""
    return raw_tensors(datatype).map(lambda drawn: raw_tensor.decode(datatype, *drawn))
