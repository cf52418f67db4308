import pytest
from hypothesis import given
from hypothesis import strategies as st

from protos import grpc_service_pb2 as pb
from service.stream_codec import encode_stream_answer, encode_stream_failure

REQUEST = pb.ModelInferRequest(id="7", model_name="clip", model_version="3")


def read(data):
    return pb.ModelStreamInferResponse.FromString(data)


# Sizes around those at which the length before the answer takes one byte more.
@pytest.mark.parametrize("size", [0, 1, 50, 80, 100, 127, 128, 16_300, 16_384, 2_097_100, 2_097_152])
def test_answer_is_carried_whole_and_marked_as_final(size):
    answer = pb.ModelInferResponse(model_name="clip", raw_output_contents=[bytes(size)] if size else [])
    expected = pb.ModelStreamInferResponse(infer_response=answer)
    expected.infer_response.parameters["triton_final_response"].bool_param = True

    assert read(encode_stream_answer(answer.SerializeToString())) == expected


@given(st.text(max_size=20), st.lists(st.binary(max_size=200), max_size=4), st.text(max_size=20))
def test_any_answer_keeps_its_fields(request_id, raw, signature):
    answer = pb.ModelInferResponse(id=request_id, raw_output_contents=raw)
    answer.parameters["signature"].string_param = signature

    streamed = read(encode_stream_answer(answer.SerializeToString())).infer_response
    assert streamed.parameters.pop("triton_final_response").bool_param
    assert streamed == answer


def test_refusal_tells_the_id_alone():
    expected = pb.ModelStreamInferResponse(error_message="no", infer_response=pb.ModelInferResponse(id="7"))

    assert read(encode_stream_failure("no", REQUEST, was_refused=True)) == expected


def test_refusal_of_a_request_without_id_has_an_empty_answer():
    refusal = read(encode_stream_failure("no", pb.ModelInferRequest(), was_refused=True))

    assert refusal.HasField("infer_response")
    assert refusal.infer_response == pb.ModelInferResponse()


def test_failure_tells_what_the_request_named_and_that_nothing_follows():
    expected = pb.ModelInferResponse(id="7", model_name="clip", model_version="3")
    expected.parameters["triton_final_response"].bool_param = True
    failure = read(encode_stream_failure("broken", REQUEST, was_refused=False))

    assert failure.error_message == "broken"
    assert failure.infer_response == expected
