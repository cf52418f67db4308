"""Parses a large message piece by piece, so that other threads have their turn in between.

The parser holds the interpreter until it is done, which takes 50 ms for the graphs of EfficientNet-B0. A serialized
message is its fields one after the other, and to parse a part of them adds to the message; so it may be cut between any
two fields, and within a field that is a message itself.
"""

from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from google.protobuf.message import Message

PIECE = 256 * 1024
"""Bytes that are parsed at once, about; they take 3 ms."""

# How a field is written; groups, which are the others, are written no more.
_VARINT = 0
_LENGTH_DELIMITED = 2
_FIXED_SIZES = {1: 8, 5: 4}
_CONTINUES = 0x80
_LONGEST_VARINT = 10


class _Field(NamedTuple):
    """Where one field lies: it begins with its tag; for a length-delimited one the value comes behind its length."""

    number: int
    begin: int
    value: int
    end: int
    has_length: bool


def parse_in_pieces(message: Message, stream: BinaryIO, begin: int, end: int) -> None:
    """Add to a message what is serialized in a part of a file, of which no more than a piece is held in memory.

    Args:
        message: added to.
        stream: buffered, and able to seek.
        begin: the position of the first byte.
        end: the position behind the last one.

    Raises:
        DecodeError: the data are cut, or are no such message.
        OSError: the file cannot be read.
    """
    parsed = begin
    for field in _fields(stream, begin, end):
        name = _message_field(message, field) if field.has_length and field.end - field.value > PIECE else None
        if name is not None:
            _parse(message, stream, parsed, field.begin)
            parse_in_pieces(_part(message, name), stream, field.value, field.end)
            parsed = field.end
        elif field.end - parsed > PIECE:
            _parse(message, stream, parsed, field.end)
            parsed = field.end
    _parse(message, stream, parsed, end)


def _parse(message: Message, stream: BinaryIO, begin: int, end: int) -> None:
    stream.seek(begin)
    message.MergeFromString(stream.read(end - begin))


def _message_field(message: Message, field: _Field) -> str | None:
    """Return the name of a field whose value is a message and can be cut; None for any other."""
    descriptor = message.DESCRIPTOR.fields_by_number.get(field.number)
    if descriptor is None or descriptor.message_type is None or descriptor.message_type.GetOptions().map_entry:
        return None
    return str(descriptor.name)


def _part(message: Message, name: str) -> Message:
    """Return the message that the value of a field is to be added to: a new one where the field is repeated."""
    value = getattr(message, name)
    part: Message = value if isinstance(value, Message) else value.add()
    return part


def _fields(stream: BinaryIO, begin: int, end: int) -> Iterator[_Field]:
    """Yield the fields; stop before one that is cut or odd, which is left to the parser to refuse."""
    while begin < end:
        stream.seek(begin)
        head = stream.read(min(2 * _LONGEST_VARINT, end - begin))
        tag, tag_size = _varint(head, 0)
        size, length = _size_to_value(tag & 7, head, tag_size) if tag_size else (0, 0)
        field_end = begin + size + length
        if not size or field_end > end:
            return
        yield _Field(tag >> 3, begin, begin + size, field_end, tag & 7 == _LENGTH_DELIMITED)
        begin = field_end


def _size_to_value(kind: int, head: bytes, tag_size: int) -> tuple[int, int]:
    """Return the size of a field without what is length-delimited in it, and that length; 0 for what is cut or odd."""
    if kind == _LENGTH_DELIMITED:
        length, size = _varint(head, tag_size)
        return size, length
    if kind == _VARINT:
        return _varint(head, tag_size)[1], 0
    return (tag_size + _FIXED_SIZES[kind] if kind in _FIXED_SIZES else 0), 0


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number that begins at a place, and where it ends: 0 when it is cut."""
    number = shift = 0
    for place in range(at, min(len(data), at + _LONGEST_VARINT)):
        number |= (data[place] & ~_CONTINUES) << shift
        if data[place] < _CONTINUES:
            return number, place + 1
        shift += 7
    return 0, 0
