"""Whatever a caller sends, the answer is a status: the server lives, keeps no region and gives away nobody's data."""

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf.message import DecodeError
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

from tests.end_to_end import request_strategies as strategies
from tests.end_to_end.calls import call, rows, texts
from tests.memory_objects import DIRECTORY, memory_objects

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 60
TOGETHER = 10
"""Requests that are sent at once and so may share runs."""

INFER, STREAM = (f"/inference.GRPCInferenceService/{name}" for name in ("ModelInfer", "ModelStreamInfer"))
PAGE = mmap.PAGESIZE
OUTSIDE = b"\x55" * PAGE

Code = grpc.StatusCode
REFUSALS = {Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.UNIMPLEMENTED, Code.INTERNAL}

# How long an example takes is the server's business. One connection and one set of regions serve all of them.
AT_ANY_SPEED = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def ask_until(stop, address):
    """Send right requests of its own rows all the time; a wrong answer raises. Returns how many rounds there were."""
    with triton.InferenceServerClient(address) as client:
        number = 0
        while not stop.is_set():
            number += 1
            x = rows(number % 7 + 1, 10 * number)
            elements = texts(*(b"good %d" % row for row in x[:, 0]))
            assert call(client, "kit", {"x": x})["y"].tolist() == (10 * x[:, :2]).tolist()
            assert call(client, "kit", {"x": x}, "embed")["z"][:, 0].tolist() == x[:, 0].tolist()
            assert call(client, "kit", {"v": x[:, 0]}, "id_fp32")["v"].tolist() == x[:, 0].tolist()
            assert call(client, "kit", {"text": elements}, "text")["text"].tolist() == elements.tolist()
    return number


@contextmanager
def good_caller(address):
    """Let right requests run beside the block; every answer to them must be right."""
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(ask_until, stop, address)
        try:
            yield
        finally:
            stop.set()
    assert asking.result()


@contextmanager
def registered_regions(server, client):
    """Register the middle page of an object for each region; the pages around it stay, and no region is kept."""
    with memory_objects() as make:
        memories = [make(3 * PAGE) for _ in strategies.REGIONS]
        for name, memory in zip(strategies.REGIONS, memories, strict=True):
            memory.write_bytes(OUTSIDE + bytes(range(256)) * (PAGE // 256) + OUTSIDE)
            client.register_system_shared_memory(name, memory.key, strategies.REGION_BYTES, PAGE)
        assert open_objects(server, memories) == len(memories)
        try:
            yield
            assert set(client.get_system_shared_memory_status().regions) == set(strategies.REGIONS)
        finally:
            for name in strategies.REGIONS:
                client.unregister_system_shared_memory(name)
        assert open_objects(server, memories) == 0
        for memory in memories:
            assert memory.content()[:PAGE] == OUTSIDE
            assert memory.content()[2 * PAGE :] == OUTSIDE


def open_objects(server, memories):
    """Return how many descriptors of the server lead to these shared-memory objects."""
    paths = {str(DIRECTORY / memory.key[1:]) for memory in memories}
    found = 0
    for descriptor in Path(f"/proc/{server._process.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += str(descriptor.readlink()) in paths
    return found


@pytest.fixture
def channel(server, client):
    """A connection to the server, beside which right requests run and regions are registered."""
    with grpc.insecure_channel(server.address) as connected, registered_regions(server, client):
        connected.unary_unary(INFER)(right_message().SerializeToString(), timeout=TIMEOUT_S)
        with good_caller(server.address):
            yield connected


def right_message():
    message = pb.ModelInferRequest(model_name="kit", raw_input_contents=[rows(1).tobytes()])
    message.inputs.add(name="x", datatype="FP32", shape=[1, 4])
    return message


def parsed(payload):
    """Return the request in these bytes, or None."""
    try:
        return pb.ModelInferRequest.FromString(payload)
    except DecodeError:
        return None


def send_at_once(channel, payloads):
    """Send each in a call of its own, all at the same time, and check every answer."""
    infer = channel.unary_unary(INFER)
    calls = [infer.future(payload, timeout=TIMEOUT_S) for payload in payloads]
    for payload, pending in zip(payloads, calls, strict=True):
        error = pending.exception()
        if error is None:
            check_response(parsed(payload), pb.ModelInferResponse.FromString(pending.result()))
        else:
            check_refusal(parsed(payload), error.code(), error.details())


def send_as_streams(channel, payloads):
    """Send all in one stream, and check every answer; bytes that are no request end it, then the rest has another."""
    while payloads:
        answered = 0
        try:
            for answer in channel.stream_stream(STREAM)(iter(payloads), timeout=TIMEOUT_S):
                check_stream_response(parsed(payloads[answered]), pb.ModelStreamInferResponse.FromString(answer))
                answered += 1
            assert answered == len(payloads)
        except grpc.RpcError as error:
            assert parsed(payloads[answered]) is None
            check_refusal(None, error.code(), error.details())
            answered += 1
        payloads = payloads[answered:]


def check_refusal(request, code, text):
    event(f"{code.name}")
    assert text
    assert "server's log" not in text
    if code is Code.UNAVAILABLE:
        assert request.parameters["timeout"].int64_param > 0
        assert "Request timeout expired" in text
    else:
        assert code in REFUSALS


def check_stream_response(request, answer):
    assert answer.infer_response.id == request.id
    if answer.error_message:
        event("error_message")
        assert "server's log" not in answer.error_message
    else:
        check_response(request, answer.infer_response)


def check_response(request, response):
    """An answer is that to this request; where it only repeats what was sent, it is the same bytes."""
    event(f"OK {request.model_name.partition(':')[0]}")
    assert (response.id, response.model_name) == (request.id, request.model_name)
    assert len(response.raw_output_contents) == len(response.outputs)
    expected = repeated(request, response.parameters["signature"].string_param or request.model_name.partition(":")[2])
    if expected is not None:
        event("OK and compared")
        assert list(response.outputs[0].shape) == list(request.inputs[0].shape)
        assert response.raw_output_contents[0] == expected


def repeated(request, signature):
    """Return the bytes that an answer must repeat, or None where it says something else."""
    if not (request.inputs and request.raw_input_contents):
        return None
    if request.inputs[0].parameters or any(output.parameters for output in request.outputs):
        return None
    sent = request.raw_input_contents[0]
    if signature == "id_bool":
        return (np.frombuffer(sent, np.uint8) != 0).tobytes()
    return sent if signature.startswith(("id_", "text")) else None


batches = st.lists(strategies.payloads(), min_size=TOGETHER, max_size=TOGETHER)


@settings(AT_ANY_SPEED, max_examples=100, derandomize=True)
@given(payloads=batches)
def test_2_000_odd_requests_get_a_status_each(channel, payloads):
    send_at_once(channel, payloads)
    send_as_streams(channel, payloads)


@pytest.fixture
def flat_memory(server, channel):
    """Check that the server holds no more memory than before."""
    before_mib = server.resident_mib()
    yield
    assert server.resident_mib() - before_mib < 100


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("flat_memory")
@settings(AT_ANY_SPEED, max_examples=5000, print_blob=True)
@given(payloads=batches)
def test_100_000_odd_requests_get_a_status_each_and_memory_stays_flat(channel, payloads):
    """Other requests each time; what fails is printed in its smallest form."""
    send_at_once(channel, payloads)
    send_as_streams(channel, payloads)
