"""Our messages and those of Triton's client live in one process and understand one another."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import json_format, text_format

ROOT = Path(__file__).resolve().parents[2]
OURS = "from protos import grpc_service_pb2 as ours, grpc_service_pb2_grpc"
THEIRS = "import tritonclient.grpc; from tritonclient.grpc import service_pb2 as theirs"
EXCHANGE = """
assert ours.ModelInferRequest is not theirs.ModelInferRequest
request = theirs.ModelInferRequest(model_name="m")
assert ours.ModelInferRequest.FromString(request.SerializeToString()).model_name == "m"
answer = ours.ModelInferResponse(raw_output_contents=[b"x"])
assert theirs.ModelInferResponse.FromString(answer.SerializeToString()).raw_output_contents == [b"x"]
assert grpc_service_pb2_grpc.GRPCInferenceServiceServicer().ModelInfer
"""


@pytest.mark.parametrize(("first", "second"), [(OURS, THEIRS), (THEIRS, OURS)], ids=["ours_first", "theirs_first"])
def test_both_can_be_imported_in_either_order(first, second):
    program = f"{first}\n{second}\n{EXCHANGE}"

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr


@pytest.fixture
def theirs():
    return pytest.importorskip("tritonclient.grpc.service_pb2")


@pytest.fixture
def ours():
    from protos import grpc_service_pb2

    return grpc_service_pb2


def infer_request(stubs):
    request = stubs.ModelInferRequest(model_name="m", model_version="3", id="\u00e4", raw_input_contents=[b"\0\1", b""])
    request.parameters["signature"].string_param = "embed"
    request.parameters["priority"].uint64_param = 2**64 - 1
    tensor = request.inputs.add(name="x", datatype="FP32", shape=[2, -1])
    tensor.parameters["shared_memory_offset"].int64_param = -5
    tensor.contents.fp32_contents.extend([1.5, float("inf")])
    request.outputs.add(name="y").parameters["classification"].int64_param = 3
    return request


def infer_response(stubs):
    response = stubs.ModelInferResponse(model_name="m", model_version="3", raw_output_contents=[b"\0\1", b""])
    response.outputs.add(name="y", datatype="BYTES", shape=[0, 7]).contents.bytes_contents.append(b"\xff")
    response.parameters["triton_final_response"].bool_param = True
    return response


def model_config(stubs):
    config = stubs.ModelConfigResponse().config
    config.name, config.max_batch_size = "m", 8
    config.input.add(name="x", dims=[-1, 3])
    config.dynamic_batching.priority_queue_policy[2].max_queue_size = 4
    config.parameters["TF_GRAPH_TAG"].string_value = "serve"
    return config


@pytest.mark.parametrize("build", [infer_request, infer_response, model_config])
def test_what_one_writes_the_other_reads(ours, theirs, build):
    our_message, their_message = build(ours), build(theirs)

    assert their_message == type(their_message).FromString(our_message.SerializeToString())
    assert our_message == type(our_message).FromString(their_message.SerializeToString())


def test_json_and_text_format_work_in_the_private_pool(ours):
    request = infer_request(ours)

    assert request == json_format.ParseDict(json_format.MessageToDict(request), ours.ModelInferRequest())
    assert request == text_format.Parse(text_format.MessageToString(request), ours.ModelInferRequest())


def test_signatures_can_be_written_in_text_format():
    from protos.model_config_pb2 import TYPE_STRING, ModelConfig

    config = text_format.Parse(
        """signatures {
             key: "text_embeddings"
             value {
               max_batch_size: 64
               dynamic_batching { max_queue_delay_microseconds: 200 }
               input [ { name: "text" data_type: TYPE_STRING dims: [ 1 ] } ]
               output [ { name: "embedding" data_type: TYPE_FP32 dims: [ 512 ] } ]
             }
           }""",
        ModelConfig(),
    )

    signature = config.signatures["text_embeddings"]
    assert signature.max_batch_size == 64
    assert signature.dynamic_batching.max_queue_delay_microseconds == 200
    assert [(x.name, x.data_type, list(x.dims)) for x in signature.input] == [("text", TYPE_STRING, [1])]
    assert list(signature.output[0].dims) == [512]


def test_a_signature_can_switch_batching_off():
    from protos.model_config_pb2 import SignatureConfig

    assert text_format.Parse("max_batch_size: 0", SignatureConfig()).HasField("max_batch_size")
    assert not SignatureConfig().HasField("max_batch_size")
