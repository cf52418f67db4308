"""Serialized requests are cut as Protocol Buffers would read them, or left to it."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from protos import grpc_service_pb2 as pb
from service.wire import cut_request, varint
from tests.service.tensors import deterministic

texts = st.text(max_size=200)


@st.composite
def requests(draw):
    """Return messages with any of the fields, in the order of their numbers."""
    made = pb.ModelInferRequest(model_name=draw(texts), model_version=draw(texts), id=draw(texts))
    if draw(st.booleans()):
        made.parameters["signature"].string_param = draw(texts)
    for name in draw(st.lists(texts, max_size=3)):
        made.inputs.add(name=name, datatype="FP32", shape=[-1, 2**40])
        made.outputs.add(name=name)
    made.raw_input_contents.extend(draw(st.lists(st.binary(max_size=300), max_size=3)))
    return made


def joined(parts):
    message = pb.ModelInferRequest.FromString(parts.header)
    assert not message.id
    message.id = parts.id
    message.raw_input_contents.extend(map(bytes, parts.raw))
    return message


@settings(deterministic, max_examples=200)
@given(message=requests())
def test_parts_together_are_the_request(message):
    parts = cut_request(message.SerializeToString())

    assert parts is not None
    assert joined(parts) == message


@settings(deterministic, max_examples=300)
@given(message=requests(), data=st.data())
def test_damaged_request_is_left_to_the_parser_or_means_the_same_to_it(message, data):
    damaged = bytearray(message.SerializeToString())
    if damaged:
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
        damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    parts = cut_request(bytes(damaged))
    if parts is None:
        return
    try:
        expected = pb.ModelInferRequest.FromString(bytes(damaged))
    except DecodeError:
        with pytest.raises(DecodeError):
            pb.ModelInferRequest.FromString(parts.header)
    else:
        assert joined(parts) == expected


def test_headers_of_requests_that_differ_in_id_and_data_are_equal():
    first, second = (
        cut_request(pb.ModelInferRequest(model_name="m", id=name, raw_input_contents=[data]).SerializeToString())
        for name, data in (("a", b"1234"), ("", b"56"))
    )

    assert first.header == second.header


def test_data_are_views_and_not_copied():
    sent = pb.ModelInferRequest(model_name="m", raw_input_contents=[bytes(1000)]).SerializeToString()

    (view,) = cut_request(sent).raw

    assert view.obj is sent


ONE = pb.ModelInferRequest(model_name="m").SerializeToString()
ID = pb.ModelInferRequest(id="7").SerializeToString()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(ID + ONE, id="in another order"),
        pytest.param(ID + ID, id="an id twice"),
        pytest.param(ONE + b"\x42\x00", id="an unknown field"),
        pytest.param(ONE + b"\x08\x01", id="a number where bytes belong"),
        pytest.param(ONE + b"\x3a\x05abc", id="content that is cut off"),
        pytest.param(ONE + b"\x3a", id="a tag alone"),
        pytest.param(ONE + b"\x3a" + b"\xff" * 1000, id="a length without an end"),
        pytest.param(b"\x1a\x01\xff", id="an id that is no text"),
        pytest.param(b"\x3a\x00" * 1000, id="very many fields"),
    ],
)
def test_what_is_not_written_as_usual_is_left_to_the_parser(sent):
    assert cut_request(sent) is None


@pytest.mark.parametrize(("number", "expected"), [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\1"), (300, b"\xac\2")])
def test_varint_has_seven_bits_a_byte(number, expected):
    assert varint(number) == expected
