"""Answers to requests of a stream, as serialized ModelStreamInferResponse messages.

What they tell of failures is Triton's: a refused request is known by its id alone; one that was taken and then failed
tells model and version, too, as the request named them, and that nothing follows.
"""

from typing import Final

from protos import grpc_service_pb2 as pb
from service.wire import length_delimited

_FINAL: Final = "triton_final_response"


def _final_parameter() -> bytes:
    message = pb.ModelInferResponse()
    message.parameters[_FINAL].bool_param = True
    return message.SerializeToString()


_FINAL_BYTES: Final = _final_parameter()

_INFER_RESPONSE: Final = pb.ModelStreamInferResponse.INFER_RESPONSE_FIELD_NUMBER


def encode_stream_answer(answer: bytes) -> bytes:
    """Return a serialized ModelInferResponse as the answer in a stream, marked as the last one to its request.

    Serialized messages that stand one behind the other are the message with the fields of both, so the answer is copied
    once and not parsed (source: Protocol Buffers, encoding, "Last One Wins").
    """
    return b"".join((length_delimited(_INFER_RESPONSE, len(answer) + len(_FINAL_BYTES)), answer, _FINAL_BYTES))


def encode_stream_failure(text: str, request: pb.ModelInferRequest, *, was_refused: bool) -> bytes:
    """Return the answer that tells of a failure.

    Args:
        text: what went wrong.
        request: the request, or its id, model name and model version.
        was_refused: whether the request was refused when it came, so that nothing of it was run.
    """
    message = pb.ModelStreamInferResponse(error_message=text)
    message.infer_response.id = request.id
    if not was_refused:
        message.infer_response.model_name = request.model_name
        message.infer_response.model_version = request.model_version
        message.infer_response.parameters[_FINAL].bool_param = True
    # Even without an id the message is there.
    message.infer_response.SetInParent()
    return message.SerializeToString()
