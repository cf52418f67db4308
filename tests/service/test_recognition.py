"""A serialized request is recognized if and only if it differs from the one before in id and data alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos import grpc_service_pb2 as pb
from service.recognition import KnownRequests, Template, TensorForm
from service.wire import cut_request
from tests.service.tensors import deterministic

FORMS = [TensorForm("b", 1, (2,), np.dtype("<f4")), TensorForm("a", 0, (1, 3), np.dtype("u1"))]


def request(a=b"123", b=b"00001111", *, request_id="", model="m", name="a", more=None):
    sent = pb.ModelInferRequest(model_name=model, id=request_id, raw_input_contents=[a, b])
    sent.inputs.add(name=name, datatype="UINT8", shape=[1, 3])
    sent.inputs.add(name="b", datatype="FP32", shape=[2])
    if more:
        sent.parameters["signature"].string_param = more
    return sent.SerializeToString()


def known(data, plan="plan"):
    requests = KnownRequests()
    requests.keep_template(Template(plan, data, cut_request(data), FORMS, 11), len(data))
    return requests


def test_inputs_are_views_of_their_data_in_the_order_of_the_forms():
    data = request(b"abc", np.array([1.5, -2], "<f4").tobytes())

    plan, request_id, inputs, nbytes = known(request()).recognize(data)

    assert (plan, request_id, nbytes, list(inputs)) == ("plan", "", 11, ["b", "a"])
    np.testing.assert_array_equal(inputs["a"], np.frombuffer(b"abc", "u1").reshape(1, 3), strict=True)
    np.testing.assert_array_equal(inputs["b"], np.array([1.5, -2], "<f4"), strict=True)
    assert inputs["a"].base is data
    assert not inputs["a"].flags.writeable


def test_the_id_is_that_of_the_message():
    assert known(request(request_id="eins")).recognize(request(request_id="zwei"))[1] == "zwei"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(request(model="n"), id="another model"),
        pytest.param(request(name="b"), id="another name of an input"),
        pytest.param(request(b"1234", b"0000111"), id="data of other lengths"),
        pytest.param(request(request_id="1"), id="an id where there was none"),
        pytest.param(request(more="f"), id="a parameter"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_requests_that_differ_in_more_are_not_recognized(other):
    assert known(request()).recognize(other) is None


def test_an_id_that_is_no_text_is_not_recognized():
    data = request(request_id="ab")

    assert known(data).recognize(data.replace(b"ab", b"\xff\xfe")) is None


def test_several_forms_of_one_length_are_told_apart_up_to_a_number():
    requests = KnownRequests()
    names = [f"m{number:02}" for number in range(40)]
    for name in names:
        data = request(model=name)
        requests.keep_template(Template(name, data, cut_request(data), FORMS, 11), len(data))

    found = [requests.recognize(request(model=name)) for name in names]

    assert [each[0] for each in found if each is not None] == names[:16]


def test_templates_of_lengths_that_clients_invent_do_not_pile_up():
    requests = KnownRequests()
    for length in range(1, 3000):
        data = request(request_id="i" * length)
        requests.keep_template(Template("plan", data, cut_request(data), FORMS, 11), len(data))

    assert len(requests._templates) <= 1024
    assert requests.recognize(request(request_id="x" * 2999)) is not None


@settings(deterministic, max_examples=500)
@given(data=st.data())
def test_a_damaged_message_is_recognized_only_if_it_means_the_same_to_a_parser(data):
    good = request(request_id="id")
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))

    found = known(good).recognize(bytes(damaged))

    if found is None:
        return
    message, original = pb.ModelInferRequest.FromString(bytes(damaged)), pb.ModelInferRequest.FromString(good)
    assert found[1] == message.id
    assert [found[2]["a"].tobytes(), found[2]["b"].tobytes()] == list(message.raw_input_contents)
    for each in (message, original):
        each.ClearField("id")
        each.ClearField("raw_input_contents")
    assert message == original
