"""A message that is parsed in pieces is the message that is parsed at once; what is broken is refused either way."""

from io import BytesIO

import pytest
from google.protobuf.message import DecodeError
from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

from service.saved_model import parsing
from service.saved_model.parsing import parse_in_pieces
from tests.models import KINDS


def parse(data):
    message = SavedModel()
    parse_in_pieces(message, BytesIO(data), 0, len(data))
    return message


def graph_file(path):
    """Return the bytes of an export's graph, in whichever form it is written."""
    file = path / "saved_model.pb"
    return file.read_bytes() if file.exists() else b""


@pytest.mark.parametrize("piece", [1, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_message_is_the_same_in_pieces_of_any_size(kind, piece, exports, monkeypatch):
    monkeypatch.setattr(parsing, "PIECE", piece)
    data = graph_file(exports(kind))

    assert parse(data) == SavedModel.FromString(data)


def test_large_message_is_parsed_in_several_pieces(monkeypatch):
    whole = SavedModel()
    library = whole.meta_graphs.add().graph_def.library
    for number in range(100):
        library.function.add().signature.name = f"{number:01000}"
    data = whole.SerializeToString()
    monkeypatch.setattr(parsing, "PIECE", len(data) // 10)
    merged = []
    library_type = type(library)
    merge = library_type.MergeFromString
    monkeypatch.setattr(
        library_type, "MergeFromString", lambda self, part: merged.append(len(part)) or merge(self, part)
    )

    assert parse(data) == whole
    assert len(merged) > 8
    assert max(merged) < len(data) // 5


@pytest.mark.parametrize("piece", [1, 100])
def test_cut_message_is_refused_wherever_it_is_cut(piece, exports, monkeypatch):
    monkeypatch.setattr(parsing, "PIECE", piece)
    data = graph_file(exports("module"))
    begin_of_the_graph = 3  # the first field, the version of the schema, is a message by itself

    for end in range(begin_of_the_graph, len(data), 7):
        with pytest.raises(DecodeError):
            parse(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff" * 20, id="number without an end"),
        pytest.param(b"\x0b", id="group without an end"),
        pytest.param(b"\x0f\x00", id="kind of field that does not exist"),
        pytest.param(b"\x12\xff\xff\xff\xff\x0f", id="length beyond the end"),
    ],
)
def test_what_the_parser_refuses_is_refused(data):
    for parser in (SavedModel.FromString, parse):
        with pytest.raises(DecodeError):
            parser(data)
