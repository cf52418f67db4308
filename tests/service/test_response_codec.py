import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from service import raw_tensor, response_codec
from service.datatypes import BYTES, DATATYPES, from_dtype
from service.errors import ResourceExhaustedError
from service.request import AnswerForm, InferResponse
from service.response_codec import encode_response
from service.signature import TensorSpec


def response(*outputs, signature=None):
    specs, arrays = zip(*outputs, strict=True) if outputs else ((), ())
    answer = InferResponse(AnswerForm("m", "10", signature, specs), "id-1", arrays)
    return pb.ModelInferResponse.FromString(encode_response(answer))


def test_an_answer_has_one_raw_entry_per_output_and_nothing_else_per_output():
    spec = TensorSpec("y", DATATYPES["FP32"], (-1, 2))
    text = TensorSpec("t", BYTES, None)

    message = response((spec, np.ones((0, 2), np.float32)), (text, np.array([b"a"], object)))

    assert [(output.name, output.datatype, list(output.shape)) for output in message.outputs] == [
        ("y", "FP32", [0, 2]),
        ("t", "BYTES", [1]),
    ]
    assert list(message.raw_output_contents) == [b"", b"\1\0\0\0a"]
    assert not any(output.HasField("contents") or output.parameters for output in message.outputs)


def test_an_answer_names_its_signature_only_when_the_request_did():
    assert dict(response(signature="f").parameters) == {"signature": pb.InferParameter(string_param="f")}
    assert not response().parameters


def test_an_answer_carries_name_version_and_id():
    message = response()

    assert (message.model_name, message.model_version, message.id) == ("m", "10", "id-1")


def test_an_answer_larger_than_a_message_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr(response_codec, "MAX_MESSAGE_BYTES", 10_000)
    spec = TensorSpec("y", DATATYPES["UINT8"], (-1,))
    half, more = np.zeros(5000, np.uint8), np.zeros(5001, np.uint8)

    assert len(response((spec, half), (spec, half)).outputs) == 2
    with pytest.raises(ResourceExhaustedError) as caught:
        response((spec, half), (spec, more))
    assert "output y UINT8[-1] came as [5001]" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.uint8, object], ids=["numbers", "strings"])
def test_answers_of_one_form_carry_their_own_shapes_data_and_id_whatever_their_size(dtype):
    specs = [TensorSpec("y", from_dtype(np.dtype(dtype)), (-1,)), TensorSpec("z", DATATYPES["FP32"], (-1, 2))]
    form = AnswerForm("m", "1", None, specs)
    cases = [(count, request_id) for count in (0, 1, 3, 5000, 3, 0) for request_id in ("", "a", "b" * 200)]
    for count, request_id in cases:
        y = np.array([b"%d" % (i % 7) if dtype is object else i % 7 for i in range(count)], dtype)
        z = np.arange(2 * count, dtype=np.float32).reshape(count, 2)

        answer = pb.ModelInferResponse.FromString(encode_response(InferResponse(form, request_id, [y, z])))

        assert (answer.model_name, answer.model_version, answer.id) == ("m", "1", request_id)
        assert [(output.name, list(output.shape)) for output in answer.outputs] == [("y", [count]), ("z", [count, 2])]
        assert list(answer.raw_output_contents) == [raw_tensor.encode(y), z.tobytes()]
