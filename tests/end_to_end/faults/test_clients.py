"""Clients that die, hang or do not read: the server drops what is theirs and answers the others."""

import contextlib
import struct
import subprocess
import sys
import time
from contextlib import ExitStack

import grpc
import numpy as np
import pytest
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from tests.end_to_end.calls import call, on_each_transport, rows
from tests.end_to_end.faults.connections import PREFACE, SETTINGS, connect, infer_frames
from tests.end_to_end.faults.hold import held
from tests.end_to_end.readings import WAIT_S, gauge, readings, wait_until

pytestmark = pytest.mark.end_to_end

OPEN_CALLS = 100

CLIENT = f"""
import sys
import tritonclient.grpc as triton
from tests.end_to_end.calls import rows, tensors

client = triton.InferenceServerClient(sys.argv[1])
assert client.is_server_live()
for _ in range({OPEN_CALLS}):
    client.async_infer(
        "faults", tensors({{"x": rows(1)}}), lambda result, error: None, parameters={{"signature": "logarithm"}}
    )
sys.stdin.readline()
"""


def waiting(server):
    """Return how many requests wait for a run of the model ``faults``."""
    return readings(server, "faults")["nv_inference_pending_request_count",]


@on_each_transport
def test_calls_of_a_killed_client_that_wait_are_dropped(server, tmp_path, note):
    before = readings(server, "faults")
    with held(server, tmp_path):
        with subprocess.Popen([sys.executable, "-c", CLIENT, server.address], stdin=subprocess.PIPE) as process:
            try:
                wait_until(lambda: waiting(server) == OPEN_CALLS)
            finally:
                process.kill()
        began = time.monotonic()
        wait_until(lambda: waiting(server) == 0)
        dropped_s = time.monotonic() - began
    wait_until(lambda: gauge(server, "signet_requests_in_flight") == 0)
    after = readings(server, "faults")
    dropped, run = (
        after[name] - before[name]
        for name in (("nv_inference_request_failure", "CANCELED"), ("signet_batch_rows_count", "logarithm"))
    )
    note(
        f"SIGKILL of a client with {OPEN_CALLS} open calls that wait",
        "all of them are dropped at once and never run; gauges return to 0",
        f"{dropped:.0f} dropped in {dropped_s:.2f} s, {run:.0f} runs; gauges 0",
    )
    assert (dropped, run) == (OPEN_CALLS, 0)


@on_each_transport
@pytest.mark.slow
def test_half_open_connections_are_closed_with_their_calls(start, tmp_path, note):
    options = {"time": "1000", "timeout": "1000", "permit-without-calls": "true"}
    server = start("faults", *(word for name, value in options.items() for word in (f"--grpc-keepalive-{name}", value)))
    idle_count = 20
    with held(server, tmp_path), ExitStack() as stack:
        before = gauge(server, "signet_open_connections")
        for _ in range(idle_count):
            stack.enter_context(connect(server)).sendall(PREFACE + SETTINGS)
        silent = stack.enter_context(connect(server))
        silent.sendall(PREFACE + SETTINGS + infer_frames(request("faults", "logarithm")))
        wait_until(lambda: waiting(server) == 1)
        began = time.monotonic()
        wait_until(lambda: waiting(server) == 0)
        wait_until(lambda: gauge(server, "signet_open_connections") == before)
        closed_s = time.monotonic() - began
        dropped = readings(server, "faults")["nv_inference_request_failure", "CANCELED"]
    note(
        f"{idle_count + 1} half-open connections, one with a call that waits; keepalive after 1 s, for 1 s",
        "closed within both times, the call dropped",
        f"closed after {closed_s:.1f} s; {dropped:.0f} call dropped",
    )
    assert dropped == 1
    assert server.stop(WAIT_S) == 0


def request(model, signature):
    """Return the bytes of a request of one row."""
    message = pb.ModelInferRequest(model_name=model)
    message.parameters["signature"].string_param = signature
    x = rows(1)
    message.inputs.add(name="x", datatype="FP32", shape=x.shape)
    message.raw_input_contents.append(x.tobytes())
    return message.SerializeToString()


def request_of_values(count):
    """Return the bytes of a request whose answer has so many floats."""
    message = pb.ModelInferRequest(model_name="kit")
    message.parameters["signature"].string_param = "blow"
    message.inputs.add(name="n", datatype="INT32", shape=[])
    message.raw_input_contents.append(struct.pack("<i", count))
    return message.SerializeToString()


@on_each_transport
@pytest.mark.slow
def test_clients_that_do_not_read_hold_up_nobody_and_leave_nothing(server, client, transport, note):
    readers, mib = 20, 10
    copies = 2 if transport == "grpcio" else 1  # it copies a message to send it, and keeps both until it is sent
    call(client, "kit", {"x": rows(1)})
    with contextlib.ExitStack() as stack:
        before_mib = server.resident_mib()
        done = readings(server)["nv_inference_request_success",]
        for _ in range(readers):
            lazy = stack.enter_context(connect(server))
            lazy.sendall(PREFACE + SETTINGS + infer_frames(request_of_values(mib * (1 << 18))))
        wait_until(lambda: readings(server)["nv_inference_request_success",] == done + readers)
        most_mib = server.resident_mib() - before_mib
        spans = []
        for _ in range(50):
            began = time.monotonic()
            call(client, "kit", {"x": rows(1)})
            spans.append(time.monotonic() - began)
        wait_until(lambda: server.resident_mib() - before_mib < readers * mib * copies * 1.25 + 50)  # at rest
        held_mib = server.resident_mib() - before_mib
    wait_until(lambda: server.resident_mib() - before_mib < 30)
    left_mib = server.resident_mib() - before_mib
    note(
        f"{readers} clients that do not read answers of {mib} MiB",
        f"others are answered; {copies} times the answers are held, nothing when the clients are gone",
        f"{most_mib:.0f} MiB at the most, {held_mib:.0f} MiB at rest, {left_mib:.0f} MiB afterwards;"
        f" slowest other call {max(spans):.2f} s",
    )
    assert held_mib > readers * mib / 2  # else they were read
    assert most_mib < readers * mib * 4  # an answer as an array, as a message, and twice in the transport


@on_each_transport
@pytest.mark.slow
def test_too_large_metadata_and_messages_are_refused_and_the_client_goes_on(start, note):
    limit = 1_000_000
    server = start("kit", "--grpc-max-receive-message-length", str(limit))
    codes = {}
    with grpc.insecure_channel(server.address) as channel:
        stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
        large = pb.ModelInferRequest(model_name="kit", raw_input_contents=[bytes(limit + 1)])
        for what, message, metadata in (
            ("message", large, ()),
            ("metadata", pb.ModelInferRequest(model_name="kit"), [("x-large", "y" * 1_000_000)]),
        ):
            with pytest.raises(grpc.RpcError) as caught:
                stub.ModelInfer(message, timeout=WAIT_S, metadata=metadata)
            codes[what] = caught.value.code().name
            answer = stub.ModelInfer(pb.ModelInferRequest.FromString(request("kit", "serving_default")), timeout=WAIT_S)
            np.testing.assert_array_equal(np.frombuffer(answer.raw_output_contents[0], np.float32), rows(1)[0, :2] * 10)
    note(
        "a message above --grpc-max-receive-message-length; metadata of 1 MB",
        "RESOURCE_EXHAUSTED (metadata on native: UNAVAILABLE); the next call is answered",
        f"message {codes['message']}, metadata {codes['metadata']}; next calls answered",
    )
    assert codes["message"] == "RESOURCE_EXHAUSTED"
    assert codes["metadata"] in ("RESOURCE_EXHAUSTED", "UNAVAILABLE")
    assert server.stop(WAIT_S) == 0
