"""The codec in a real gRPC server, called by the stock client."""

from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import InferenceServerException

from protos import grpc_service_pb2 as pb
from service import codec, raw_tensor
from service.datatypes import DATATYPES, from_dtype
from service.errors import InvalidArgumentError
from service.request import AnswerForm, InferResponse
from service.response_codec import encode_response
from service.signature import TensorSpec
from service.status import status_of
from tests.service.tensors import arrays, deterministic


class Echo(grpc.GenericRpcHandler):
    """Answers every call with the inputs of its request, read and written by the codec."""

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.answer, request_deserializer=pb.ModelInferRequest.FromString)

    def answer(self, message, context):
        request = codec.MessageRequest(message)
        try:
            wanted = [output.name for output in request.outputs()]
            outputs = [
                (
                    TensorSpec(tensor.name, datatype, tensor.shape),
                    raw_tensor.decode(datatype, tensor.shape, tensor.data),
                )
                for tensor in request.inputs()
                for datatype in [DATATYPES[tensor.datatype]]
                if not wanted or tensor.name in wanted
            ]
            signature = request.parameters().signature
        except InvalidArgumentError as error:
            context.abort(*status_of(error))
        specs, arrays = zip(*outputs, strict=True) if outputs else ((), ())
        form = AnswerForm(request.model_name, "3", signature, specs)
        return encode_response(InferResponse(form, request.id, arrays))


@pytest.fixture(scope="module")
def client():
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers([Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with InferenceServerClient(f"127.0.0.1:{port}") as client:
        yield client
    server.stop(None).wait()


def infer_input(name, array):
    return InferInput(name, list(array.shape), from_dtype(array.dtype).name).set_data_from_numpy(array)


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
@settings(deterministic, max_examples=25)
@given(draw=st.data())
def test_the_stock_client_gets_back_what_it_sent(datatype, draw, client):
    sent = draw.draw(arrays(datatype))

    received = client.infer("m", [infer_input("x", sent)]).as_numpy("x")

    assert received.shape == sent.shape
    assert raw_tensor.encode(received.astype(datatype.dtype)) == raw_tensor.encode(sent)


def test_the_stock_client_finds_every_output_at_its_index(client):
    sent = {
        "empty": np.zeros((0, 4), np.float32),
        "text": np.array([[b"a\0"], [b""]], object),
        "no_text": np.empty((2, 0), object),
        "scalar": np.array(7, np.int64),
        "boolean": np.ones((), bool),
        "row": np.arange(3, dtype=np.uint16),
    }

    result = client.infer("m", [infer_input(name, array) for name, array in sent.items()])

    assert len(result.get_response().raw_output_contents) == len(sent)
    for name, array in sent.items():
        np.testing.assert_array_equal(result.as_numpy(name), array, strict=True)


def test_the_stock_client_names_outputs_signature_and_id(client):
    inputs = [infer_input(name, np.zeros(2, np.float32)) for name in "abc"]

    response = client.infer(
        "m:\u6f22",
        inputs,
        outputs=[InferRequestedOutput("c"), InferRequestedOutput("a")],
        request_id="\u017c\n " + "x" * 5000,
        parameters={"signature": "embed", "custom": 1.5},
        priority=2,
        timeout=10,
        sequence_id="s",
    ).get_response()

    assert [output.name for output in response.outputs] == ["a", "c"]
    assert (response.model_name, response.model_version) == ("m:\u6f22", "3")
    assert response.id == "\u017c\n " + "x" * 5000
    assert dict(response.parameters)["signature"].string_param == "embed"


def test_the_stock_client_sees_the_refusal(client):
    with pytest.raises(InferenceServerException, match="input 'x' already exists in request"):
        client.infer("m", [infer_input("x", np.zeros(2, np.float32))] * 2)
