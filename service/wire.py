"""Protocol Buffers' wire format, as far as requests and answers are cut and joined without message objects.

Every field here is a tag, the length of its content, and the content. A message object would copy the tensors' data
once more on the way in and twice more on the way out. Source: Protocol Buffers, encoding.
"""

from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

Span: TypeAlias = tuple[int, int]
"""Where in a message the content of a field begins and ends."""


class RequestParts(NamedTuple):
    """A serialized ModelInferRequest, cut.

    Attributes:
        header: all fields but the following two, serialized.
        id: its id; empty if it has none.
        raw: its raw input contents, as views.
        id_span: where the id lies, or None.
        raw_spans: where the raw input contents lie, in order.
    """

    header: bytes
    id: str
    raw: list[memoryview]
    id_span: Span | None
    raw_spans: list[Span]


# The fields of ModelInferRequest, each number shifted by the three bits of its wire type; 2 is length-delimited.
_ID: Final = 3 << 3 | 2
_RAW_INPUT_CONTENTS: Final = 7 << 3 | 2
_HEADER: Final = frozenset(number << 3 | 2 for number in (1, 2, 4, 5, 6))

_MARK: Final = 0x80
"""In all bytes of a number but the last."""

_LONGEST_LENGTH: Final = 5
"""Bytes of a length below 2 GiB, the most that a message can have."""

_MOST_FIELDS: Final = 128
"""A message of very many fields is left to a parser that is faster, but copies."""


def cut_request(data: bytes) -> RequestParts | None:  # noqa: C901, PLR0911 - one pass, for every request
    """Cut a serialized ModelInferRequest into what many requests have in common, the id, and the data as views.

    Returns:
        The parts; None where it is not written as every usual client writes it, in the order of the fields' numbers and
        without unknown ones, so that it must be parsed as a whole to know what it means, or whether it means anything.
    """
    end = len(data)
    at = last = id_begin = id_end = 0
    header_end = end
    spans: list[Span] = []
    try:
        for _ in range(_MOST_FIELDS):
            if at == end:
                break
            begin = at
            tag = data[at]
            length = data[at + 1]
            at += 2
            if length & _MARK:
                length, at = _read_number(data, at - 1)
            content = at
            at += length
            if tag < last or at > end:
                return None
            if tag == _RAW_INPUT_CONTENTS:
                if not spans:
                    header_end = begin
                spans.append((content, at))
            elif tag == _ID:
                if id_end:
                    return None
                id_begin, id_content, id_end = begin, content, at
            elif tag not in _HEADER:
                return None
            last = tag
        else:
            return None
        view = memoryview(data)
        raw = [view[begin:end] for begin, end in spans]
        if not id_end:
            return RequestParts(data[:header_end], "", raw, None, spans)
        header, request_id = data[:id_begin] + data[id_end:header_end], data[id_content:id_end].decode()
        return RequestParts(header, request_id, raw, (id_content, id_end), spans)
    except (IndexError, UnicodeDecodeError):
        return None


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a number from groups of seven bits, the lowest first; return it and where it ends.

    Raises:
        IndexError: it does not end before the data, or has more bits than a length can have.
    """
    number = 0
    for place in range(_LONGEST_LENGTH):
        byte = data[at + place]
        number |= (byte & ~_MARK) << 7 * place
        if byte < _MARK:
            return number, at + place + 1
    raise IndexError


@lru_cache(1024)
def length_delimited(field: int, length: int) -> bytes:
    """Return what stands before the content of a field: its number, at most 15, and the length of the content."""
    return bytes((field << 3 | 2, length)) if length < _MARK else bytes((field << 3 | 2,)) + varint(length)


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first; all but the last carry a mark."""
    groups = bytearray()
    while number >= _MARK:
        groups.append(number & 0x7F | _MARK)
        number >>= 7
    groups.append(number)
    return bytes(groups)
