"""Models come, change and go while the server runs, with the stock client's calls."""

import json
import os
import shutil
import threading

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, rows
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

RELOADS = 20
RELOADS_UNTIL_FLAT = 5
GROWTH_MIB = 10
SPARE = 3
"""A version that was replaced, or a connection that was closed, may not be gone yet when the next one comes."""
FIRST_ROW = {"row": np.zeros(1, np.int32)}


@pytest.fixture(scope="module")
def models(export, tmp_path_factory):
    """A repository of copies, which tests may change; each test uses a model of its own."""
    root = tmp_path_factory.mktemp("explicit")
    for name in ("swapped", "configured", "unloaded", "broken"):
        shutil.copytree(export("kit"), root / name / "1")
    shutil.copytree(export("module"), root / "versions" / "1")
    shutil.copytree(export("weights_4_mb_variables"), root / "often" / "1")
    shutil.copytree(export("counter"), root / "counter" / "1")
    return root


@pytest.fixture(scope="module")
def explicit(models):
    """A server whose freed weights glibc gives back, where it would keep a copy in the arena of each loading thread."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MALLOC_MMAP_THRESHOLD_", str(1 << 20))
        process = ServerProcess(models, "--model-control-mode", "explicit")
    with process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0


@pytest.fixture
def client(explicit):
    with triton.InferenceServerClient(explicit.address) as connected:
        yield connected


def refusal(function, *arguments, **options):
    with pytest.raises(InferenceServerException) as caught:
        function(*arguments, **options)
    return caught.value.status().removeprefix("StatusCode."), caught.value.message()


def index(client, name):
    models = client.get_model_repository_index().models
    return [(model.version, model.state, model.reason) for model in models if model.name == name]


def touch(models, name, version="1"):
    """Make a version look as if it was written anew."""
    status = (models / name / version / "saved_model.pb").stat()
    os.utime(models / name / version / "saved_model.pb", ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def health(explicit, name):
    with grpc.insecure_channel(explicit.address) as channel:
        answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def test_model_is_not_found_until_it_is_loaded_and_again_after_its_unload(client, explicit):
    assert index(client, "unloaded") == [("", "", "")]
    assert not client.is_model_ready("unloaded")
    client.load_model("unloaded")
    assert client.is_model_ready("unloaded", "1")
    assert index(client, "unloaded") == [("1", "READY", "")]
    assert health(explicit, "unloaded") == "SERVING"
    np.testing.assert_array_equal(rows(2)[:, :2] * 10, call(client, "unloaded", {"x": rows(2)})["y"])
    client.unload_model("unloaded")
    assert not client.is_model_ready("unloaded")
    assert refusal(call, client, "unloaded", {"x": rows(1)})[0] == "NOT_FOUND"
    assert health(explicit, "unloaded") == "NOT_SERVING"
    assert client.is_server_ready()


def test_load_override_shows_in_the_configuration_and_stays(client):
    client.load_model("configured", config=json.dumps({"max_batch_size": "16"}))
    assert client.get_model_config("configured").config.max_batch_size == 16
    code, text = refusal(client.load_model, "configured", config="{nope")
    assert (code, "failed to load 'configured', failed to poll" in text) == ("INTERNAL", True)
    client.load_model("configured")
    assert client.get_model_config("configured").config.max_batch_size == 16
    client.unload_model("configured", unload_dependents=True)
    client.load_model("configured")
    assert client.get_model_config("configured").config.max_batch_size == 64


def test_wrong_loads_have_tritons_statuses(client):
    assert refusal(client.load_model, "nope") == (
        "INTERNAL",
        "failed to load 'nope', failed to poll from model repository",
    )
    assert refusal(client.load_model, "x" * 256)[0] == "INTERNAL"
    assert refusal(client.load_model, "")[0] == "INVALID_ARGUMENT"
    assert refusal(client.load_model, "../swapped")[0] == "INVALID_ARGUMENT"
    assert refusal(client.load_model, "swapped:serving_default")[0] == "INVALID_ARGUMENT"
    assert refusal(client.load_model, "swapped", config="{}", files={"file:1/x": b"x"})[0] == "INVALID_ARGUMENT"
    assert client.is_server_ready()


def test_broken_model_makes_the_server_not_ready_until_it_is_unloaded(client, models):
    graph = models / "broken" / "1" / "saved_model.pb"
    whole = graph.read_bytes()
    graph.write_bytes(whole[: len(whole) // 2])

    code, text = refusal(client.load_model, "broken")
    assert code == "INVALID_ARGUMENT"
    assert text.startswith("load failed for model 'broken': version 1 is at UNAVAILABLE state: ")
    ((version, state, reason),) = index(client, "broken")
    assert (version, state) == ("1", "UNAVAILABLE")
    assert reason in text
    assert not client.is_server_ready()
    client.unload_model("broken")
    assert client.is_server_ready()
    graph.write_bytes(whole)
    client.load_model("broken")
    assert client.is_model_ready("broken")


def test_new_version_takes_over_and_a_broken_one_does_not(client, models):
    client.load_model("versions")
    (models / "versions" / "3").mkdir()
    assert refusal(client.load_model, "versions")[0] == "INVALID_ARGUMENT"
    assert client.infer("versions", _inputs(1)).get_response().model_version == "1"
    assert client.is_server_ready()
    (models / "versions" / "3").rmdir()
    shutil.copytree(models / "versions" / "1", models / "versions" / "2")
    client.load_model("versions")
    assert client.infer("versions", _inputs(1)).get_response().model_version == "2"
    assert refusal(client.infer, "versions", _inputs(1), model_version="1")[0] == "UNAVAILABLE"


def _inputs(count):
    tensor = triton.InferInput("x", [count, 4], "FP32")
    tensor.set_data_from_numpy(rows(count))
    return [tensor]


def test_reload_of_a_counter_starts_anew_and_its_statistics_too(client, models):
    client.load_model("counter")
    assert call(client, "counter", {}, "increment")["count"] == 1
    client.load_model("counter")
    assert call(client, "counter", {}, "increment")["count"] == 2
    touch(models, "counter")
    client.load_model("counter")
    assert client.get_inference_statistics("counter").model_stats[0].inference_stats.success.count == 0
    assert call(client, "counter", {}, "increment")["count"] == 1


def test_no_request_fails_while_its_model_is_reloaded(client, explicit, models):
    """Every row comes back right, from slow runs too, and nothing is refused while versions change underneath."""
    client.load_model("swapped")
    done = threading.Event()
    faults, answered = [], []

    def send(signature, delay_ms):
        x = rows(1)
        x[0, 3] = delay_ms
        with triton.InferenceServerClient(explicit.address) as own:
            while not done.is_set():
                try:
                    answered.append(np.array_equal(call(own, "swapped", {"x": x}, signature)["y"], x[:, :2] * 10))
                except InferenceServerException as error:
                    faults.append(error)
                    return

    senders = [threading.Thread(target=send, args=work) for work in (("serving_default", 0), ("slow", 40), ("slow", 5))]
    for sender in senders:
        sender.start()
    for _ in range(3):
        touch(models, "swapped")
        client.load_model("swapped")
    done.set()
    for sender in senders:
        sender.join()

    assert faults == []
    assert answered
    assert all(answered)
    assert index(client, "swapped") == [("1", "READY", "")]


def test_memory_threads_and_files_are_flat_over_reloads_and_connections(explicit, models):
    process = psutil.Process(explicit.pid)
    resident, threads, files = [], [], []
    for _ in range(RELOADS):
        touch(models, "often")
        with triton.InferenceServerClient(explicit.address) as client:
            client.load_model("often")
            call(client, "often", FIRST_ROW, "s0")
            resident.append(explicit.resident_mib())
            threads.append(process.num_threads())
            files.append(process.num_fds())

    assert max(threads[RELOADS_UNTIL_FLAT:]) <= max(threads[:RELOADS_UNTIL_FLAT]) + SPARE, threads
    assert max(files[RELOADS_UNTIL_FLAT:]) <= max(files[:RELOADS_UNTIL_FLAT]) + SPARE, files
    assert resident[-1] - resident[RELOADS_UNTIL_FLAT] < GROWTH_MIB, [round(mib) for mib in resident]


def test_parallel_loads_of_one_model_all_succeed(client, explicit, models):
    touch(models, "often")
    failures = []

    def load():
        with triton.InferenceServerClient(explicit.address) as own:
            try:
                own.load_model("often")
            except InferenceServerException as error:
                failures.append(error)

    loaders = [threading.Thread(target=load) for _ in range(4)]
    for loader in loaders:
        loader.start()
    for loader in loaders:
        loader.join()

    assert failures == []
    assert client.is_model_ready("often")
    for _ in range(10):
        client.unload_model("often")
        client.load_model("often")
        call(client, "often", FIRST_ROW, "s0")


def test_default_mode_refuses_loads_and_unloads(server):
    with triton.InferenceServerClient(server.address) as fixed:
        expected = ("UNAVAILABLE", "explicit model load / unload is not allowed if polling is enabled")
        for name in ("kit", "nope"):
            assert refusal(fixed.load_model, name) == expected
            assert refusal(fixed.unload_model, name) == expected
        assert index(fixed, "kit") == [("1", "READY", "")]
        assert fixed.is_model_ready("kit")
