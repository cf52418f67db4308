"""Wrong requests of every kind get a clear status, and the server goes on."""

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from tests.end_to_end.calls import call, on_each_transport, rows

pytestmark = [pytest.mark.end_to_end, on_each_transport]

ROW = np.arange(4, dtype=np.float32).tobytes()


def request(model="kit", version="", inputs=(("x", "FP32", (1, 4)),), raw=(ROW,), outputs=(), parameters=None):
    message = pb.ModelInferRequest(model_name=model, model_version=version, raw_input_contents=raw)
    for name, datatype, shape in inputs:
        message.inputs.add(name=name, datatype=datatype, shape=shape)
    for name in outputs:
        message.outputs.add(name=name)
    for key, (kind, value) in (parameters or {}).items():
        setattr(message.parameters[key], kind, value)
    return message


def typed(field, values, datatype="FP32", signature="serving_default", shape=(1, 4), name="x"):
    message = request(inputs=((name, datatype, shape),), raw=(), parameters={"signature": ("string_param", signature)})
    getattr(message.inputs[0].contents, field).extend(values)
    return message


def both_raw_and_typed():
    message = request()
    message.inputs[0].contents.fp32_contents.extend([1.0] * 4)
    return message


def bytes_input(raw, shape):
    return request(inputs=(("text", "BYTES", shape),), raw=(raw,), parameters={"signature": ("string_param", "text")})


INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND

WRONG = {
    "unknown model": (request(model="nope"), NOT_FOUND, ["Request for unknown model", "'nope'"]),
    "empty model name": (request(model=""), NOT_FOUND, ["Request for unknown model"]),
    "unknown version": (request(version="9"), NOT_FOUND, ["Request for unknown model", "version 9"]),
    "version zero": (request(version="0"), NOT_FOUND, ["version 0"]),
    "version that is no number": (
        request(version="wrong_specification"),
        INVALID,
        ["failed to get model version from specified version string 'wrong_specification'"],
    ),
    "negative version": (request(version="-1"), INVALID, ["-1"]),
    "path as model": (request(model="../kit"), NOT_FOUND, ["Request for unknown model", "'../kit'"]),
    "absolute path as model": (request(model="/etc"), NOT_FOUND, ["Request for unknown model"]),
    "path as version": (request(version="../1"), INVALID, ["'../1'"]),
    "path as signature": (request(parameters={"signature": ("string_param", "../x")}), INVALID, ["'../x'"]),
    "path as signature in the name": (request(model="kit:../x"), NOT_FOUND, ["'../x'"]),
    "version before model": (request(model="nope", version="abc"), INVALID, ["'abc'"]),
    "missing input": (request(inputs=(), raw=()), INVALID, ["'x'", "x FP32[-1,4]", "serving_default", "version 1"]),
    "unknown input": (request(inputs=(("X", "FP32", (1, 4)),)), INVALID, ["'X'", "x FP32[-1,4]"]),
    "extra input": (
        request(inputs=(("x", "FP32", (1, 4)), ("k", "FP32", (1, 4))), raw=(ROW, ROW)),
        INVALID,
        ["'k'", "expected 1 inputs but got 2"],
    ),
    "same input twice": (
        request(inputs=(("x", "FP32", (1, 4)), ("x", "FP32", (1, 4))), raw=(ROW, ROW)),
        INVALID,
        ["'x' already exists"],
    ),
    "wrong datatype": (request(inputs=(("x", "INT32", (1, 4)),)), INVALID, ["'x'", "'INT32'", "'FP32'"]),
    "lower-case datatype": (request(inputs=(("x", "fp32", (1, 4)),)), INVALID, ["'fp32'", "'FP32'"]),
    "wrong width": (request(inputs=(("x", "FP32", (1, 6)),), raw=(b"\0" * 24,)), INVALID, ["[-1,4]", "[1,6]"]),
    "wrong rank": (request(inputs=(("x", "FP32", (4,)),)), INVALID, ["[-1,4]", "[4]"]),
    "no shape": (request(inputs=(("x", "FP32", ()),)), INVALID, ["'x'", "batch dimension"]),
    "negative dimension": (request(inputs=(("x", "FP32", (-1, 4)),)), INVALID, ["'x'", "[-1,4]"]),
    "huge dimension": (request(inputs=(("x", "FP32", (2**62, 4)),)), INVALID, [str(2**66)]),
    "product that wraps": (request(inputs=(("x", "FP32", (2**62 + 1, 4)),)), INVALID, ["'x'"]),
    "too many rows without elements": (
        request(
            inputs=(("ids", "INT64", (2**40, 0)),), raw=(b"",), parameters={"signature": ("string_param", "tokens")}
        ),
        INVALID,
        ["'ids'"],
    ),
    "too few bytes": (request(raw=(ROW[:-4],)), INVALID, ["Expected 16, got 12", "'x'", "FP32"]),
    "doubles sent as floats": (request(raw=(ROW * 2,)), INVALID, ["Expected 16, got 32", "64-bit"]),
    "no data": (request(raw=()), INVALID, ["'x'", "unable to find data"]),
    "raw and typed": (
        both_raw_and_typed(),
        INVALID,
        ["contents field must not be specified when using raw_input_contents for 'x' for model 'kit'"],
    ),
    "wrong typed field": (typed("int_contents", [1, 2, 3, 4]), INVALID, ["'x'", "int_contents", "fp32_contents"]),
    "too few typed elements": (typed("fp32_contents", [1.0]), INVALID, ["Expected 16, got 4"]),
    "FP16 in a typed field": (
        typed("fp32_contents", [1.0], "FP16", "id_fp16", (1,), "v"),
        INVALID,
        ["FP16", "send it raw"],
    ),
    "string prefix cut": (bytes_input(b"\1\0\0", (1,)), INVALID, ["4 bytes", "3 bytes"]),
    "string cut": (bytes_input(b"\x0a\0\0\0abc", (1,)), INVALID, ["length 10", "3 bytes"]),
    "too few strings": (bytes_input(b"\1\0\0\0a", (2,)), INVALID, ["expected 2", "got 1"]),
    "too many strings": (bytes_input(b"\1\0\0\0a" * 2, (1,)), INVALID, ["expecting 1"]),
    "unknown output": (request(outputs=("nope",)), INVALID, ["'nope'", "y FP32[-1,2]"]),
    "an input as output": (request(outputs=("x",)), INVALID, ["'x'"]),
    "output twice": (request(outputs=("y", "y")), INVALID, ["'y' already exists"]),
    "reserved parameter": (request(parameters={"triton_x": ("int64_param", 1)}), INVALID, ["reserved"]),
    "priority of a wrong type": (request(parameters={"priority": ("string_param", "1")}), INVALID, ["priority"]),
    "sequence id too long": (
        request(parameters={"sequence_id": ("string_param", "x" * 129)}),
        grpc.StatusCode.UNIMPLEMENTED,
        ["128"],
    ),
}


@pytest.fixture(scope="module")
def stub(server):
    with grpc.insecure_channel(server.address) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_request_is_refused_with_a_text_that_helps(stub, fault):
    message, code, texts = WRONG[fault]
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(message, timeout=30)

    assert caught.value.code() is code
    for text in texts:
        assert text in caught.value.details()


def test_server_still_answers_after_all_that(client):
    np.testing.assert_array_equal(rows(3)[:, :2] * 10, call(client, "kit", {"x": rows(3)})["y"])


def test_refused_requests_are_counted_nowhere(stub, client):
    before = client.get_inference_statistics("kit").model_stats[0]
    for message, _, _ in WRONG.values():
        with pytest.raises(grpc.RpcError):
            stub.ModelInfer(message, timeout=30)
    after = client.get_inference_statistics("kit").model_stats[0]

    assert (after.inference_stats.fail.count, after.execution_count) == (
        before.inference_stats.fail.count,
        before.execution_count,
    )


def test_message_that_is_no_request_is_internal(server):
    with grpc.insecure_channel(server.address) as channel:
        send = channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
        with pytest.raises(grpc.RpcError) as caught:
            send(b"\xff\xff\xff\xff", timeout=30)

    assert caught.value.code() is grpc.StatusCode.INTERNAL


def test_rpc_that_does_not_exist_is_unimplemented(server):
    with grpc.insecure_channel(server.address) as channel:
        send = channel.unary_unary("/inference.GRPCInferenceService/ModelDance")
        with pytest.raises(grpc.RpcError) as caught:
            send(b"", timeout=30)

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_model_failure_is_internal_and_names_the_model(client):
    poison = rows(1)
    poison[0, 2] = -1
    with pytest.raises(Exception, match="picky wants no negative value") as caught:
        call(client, "kit", {"x": poison}, "picky")

    assert caught.value.status() == "StatusCode.INTERNAL"
    assert "kit" in caught.value.message()


@pytest.mark.parametrize(
    ("name", "version", "text"),
    [("nope", "", "'nope'"), ("kit", "9", "version"), ("kit", "abc", "abc"), ("kit:nope", "", "'nope'")],
)
def test_statistics_of_something_unknown_are_an_invalid_argument(client, name, version, text):
    with pytest.raises(Exception, match=text) as caught:
        client.get_inference_statistics(name, version)

    assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"


@pytest.mark.parametrize("signature", ["text", "tokens", "serving_default"])
def test_zero_rows_are_answered_with_zero_rows(client, signature):
    inputs = {
        "text": {"text": np.empty(0, object)},
        "tokens": {"ids": np.empty((0, 3), np.int64)},
        "serving_default": {"x": np.empty((0, 4), np.float32)},
    }[signature]
    (output,) = call(client, "kit", inputs, signature, client_timeout=30).values()

    assert output.shape[0] == 0


def test_requested_outputs_alone_come_back_in_the_models_order(client, server):
    message = request(outputs=("out_10", "out_2"), parameters={"signature": ("string_param", "many")})
    with grpc.insecure_channel(server.address) as channel:
        response = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message, timeout=30)

    assert [output.name for output in response.outputs] == sorted(["out_10", "out_2"])
    assert len(response.raw_output_contents) == 2
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        assert np.frombuffer(raw, np.float32)[1] == float(output.name.removeprefix("out_"))
