"""The stock client and perf_analyzer with tensors in shared memory, against a server process."""

import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException, serialize_byte_tensor

from tests.end_to_end.calls import rows, texts
from tests.end_to_end.test_perf_analyzer import PERF_ANALYZER, measure
from tests.memory_objects import memory_objects

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 60


@pytest.fixture
def shared(client):
    """A function that makes an object of so many bytes and registers it under a name; all is gone after the test."""
    registered = []
    with memory_objects() as make:

        def share(name, byte_size, offset=0):
            memory = make(byte_size + offset)
            client.register_system_shared_memory(name, memory.key, byte_size, offset)
            registered.append(name)
            return memory

        yield share
        for name in registered:
            client.unregister_system_shared_memory(name)


def source(name, shape, datatype, region, byte_size, offset=0):
    tensor = triton.InferInput(name, list(shape), datatype)
    tensor.set_shared_memory(region, byte_size, offset)
    return tensor


def target(name, region, byte_size, offset=0):
    output = triton.InferRequestedOutput(name)
    output.set_shared_memory(region, byte_size, offset)
    return output


def infer(client, signature, inputs, outputs=None, **options):
    return client.infer("kit", inputs, outputs=outputs, parameters={"signature": signature}, **options)


def failure(call, *arguments, **options):
    with pytest.raises(InferenceServerException) as caught:
        call(*arguments, **options)
    return caught.value.status(), caught.value.message()


def test_tensors_of_numbers_travel_through_regions(client, shared):
    memory_in, memory_out = shared("in", 4096, offset=4096), shared("out", 4096)
    x = rows(3)
    memory_in.write(x, offset=4096 + 16)
    result = infer(client, "embed", [source("x", x.shape, "FP32", "in", x.nbytes, 16)], [target("z", "out", 1024, 32)])

    output = result.get_output("z")
    assert list(output.shape) == [3, 8]
    assert list(result.get_response().raw_output_contents) == [b""]
    assert memory_out.array(np.float32, (3, 8), 32)[:, 0].tolist() == [1, 2, 3]


def test_strings_travel_through_regions(client, shared):
    elements = texts(b"one", b"", b"\xff\0", b"four")
    raw = serialize_byte_tensor(elements)
    memory_in, memory_out = shared("in", 4096), shared("out", 4096)
    memory_in.write(raw)
    infer(client, "text", [source("text", (4,), "BYTES", "in", len(raw.item()))], [target("text", "out", 4096)])

    assert memory_out.array(np.object_, (4,)).tolist() == elements.tolist()


def test_inputs_in_regions_and_in_the_message_mix(client, shared):
    shared("in", 4096).write(np.array([3], np.float32))
    x = triton.InferInput("x", [2, 4], "FP32")
    x.set_data_from_numpy(rows(2))
    result = infer(client, "scale", [source("k", (), "FP32", "in", 4), x])

    assert result.as_numpy("y").tolist() == (rows(2) * 3).tolist()


def test_streams_use_regions_too(client, shared):
    memory_in, memory_out = shared("in", 4096), shared("out", 4096)
    memory_in.write(rows(2))
    answers = queue.SimpleQueue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    for offset in (0, 512):
        client.async_stream_infer(
            "kit:slow", [source("x", (2, 4), "FP32", "in", 32)], outputs=[target("y", "out", 16, offset)]
        )
    errors = [answers.get(timeout=TIMEOUT_S)[1] for _ in range(2)]
    client.stop_stream()

    assert errors == [None, None]
    for offset in (0, 512):
        assert memory_out.array(np.float32, (2, 2), offset)[:, 0].tolist() == [10, 20]


def test_many_callers_share_one_region_and_each_gets_its_own_rows(server, shared):
    calls, slot = 400, 512
    memory_in, memory_out = shared("in", calls * slot), shared("out", calls * slot)

    def work(numbers):
        with triton.InferenceServerClient(server.address) as client:
            for number in numbers:
                count, offset = number % 4 + 1, number * slot
                memory_in.write(rows(count, first_id=10 * number), offset=offset)
                infer(
                    client,
                    "embed",
                    [source("x", (count, 4), "FP32", "in", 16 * count, offset)],
                    [target("z", "out", slot, offset)],
                )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, [range(first, calls, 8) for first in range(8)]))

    for number in range(calls):
        count = number % 4 + 1
        ids = memory_out.array(np.float32, (count, 8), number * slot)[:, 0]
        assert ids.tolist() == list(range(10 * number, 10 * number + count))


def test_a_region_that_shrinks_fails_its_requests_and_not_the_server(client, shared):
    memory = shared("in", 8192)
    memory.write(rows(2))
    call = ("embed", [source("x", (2, 4), "FP32", "in", 32, 4096)])
    infer(client, *call)
    memory.resize(4096)
    status, text = failure(infer, client, *call)
    assert status == "StatusCode.INVALID_ARGUMENT"
    assert "was shrunk to 4096 bytes after it was registered" in text

    memory.resize(0)
    status, text = failure(infer, client, "embed", [source("x", (2, 4), "FP32", "in", 32)], [target("z", "in", 64)])
    assert "was shrunk to 0 bytes" in text
    assert client.is_server_live()


def test_status_codes_are_those_of_triton(client, shared):
    memory = shared("r", 4096)
    register = client.register_system_shared_memory

    assert failure(register, "r", memory.key, 64)[0] == "StatusCode.ALREADY_EXISTS"
    status, text = failure(register, "s", "/signet_test_missing", 64)
    assert status == "StatusCode.INTERNAL"
    assert "/signet_test_missing" in text
    assert "Client and server must share /dev/shm" in text
    for byte_size, offset in ((4097, 0), (1, 4096), (1, 1), (0, 0), (2**64 - 1, 0), (2**64 - 4096, 4096)):
        assert failure(register, "s", memory.key, byte_size, offset)[0] == "StatusCode.INVALID_ARGUMENT"
    assert list(client.get_system_shared_memory_status().regions) == ["r"]
    assert "system_shared_memory" in client.get_server_metadata().extensions


@pytest.mark.skipif(not PERF_ANALYZER.exists(), reason="perf_analyzer is not installed: make perf-analyzer")
@pytest.mark.parametrize(
    "options",
    [
        ("-m", "kit", "--shape", "x:4", "--output-shared-memory-size", "64"),
        ("-m", "kit:embed", "-b", "4", "--output-shared-memory-size", "4096"),
        ("-m", "kit:embed", "--output-shared-memory-size", "4096", "--async"),
        ("-m", "kit:embed", "--output-shared-memory-size", "4096", "--streaming"),
    ],
    ids=["sync", "client_batch", "async", "streaming"],
)
def test_perf_analyzer_measures_through_regions(server, client, options):
    run = measure(server.address, *options, "--shared-memory", "system", "--concurrency-range", "4")
    report = run.stdout + run.stderr

    assert run.returncode == 0, report
    assert "Throughput" in report
    assert "Inference count" in report
    assert dict(client.get_system_shared_memory_status().regions) == {}
