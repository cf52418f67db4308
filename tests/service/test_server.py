"""The life of a server in this process, where it can be with models that need no TensorFlow."""

import asyncio
import http.client
import logging
import os
import re
import shutil
import signal
import threading
from contextlib import asynccontextmanager, closing

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.grpc import aio as triton
from tritonclient.utils import InferenceServerException

from service import server
from service.errors import LoadError, UnavailableError
from service.repository import Repository
from service.server import Server
from service.servicer import Servicer
from service.settings import Settings

WAIT_S = 30


def make(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


@pytest.fixture
def unservable(tmp_path):
    """A repository whose one model belongs to another backend, so that it fails before TensorFlow is needed."""
    make(tmp_path / "models", "onnx/1/model.onnx")
    (tmp_path / "models/onnx/config.pbtxt").write_text('backend: "onnxruntime"')
    return tmp_path / "models"


@asynccontextmanager
async def running(repository, socket, **options):
    """A server in this event loop; the block gets its task, and a client once it has loaded."""
    settings = Settings(metrics_port=0, model_repository=[repository], grpc_address=[f"unix:{socket}"], **options)
    server = asyncio.create_task(Server(settings).run())
    async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(service="onnx"), wait_for_ready=True, timeout=WAIT_S
        )
        while (await watch.read()).status != health_pb2.HealthCheckResponse.NOT_SERVING:
            pass
        watch.cancel()
    async with triton.InferenceServerClient(f"unix:{socket}") as client:
        yield server, client
        await asyncio.wait_for(server, WAIT_S)


def terminate():
    os.kill(os.getpid(), signal.SIGTERM)


def test_model_that_cannot_be_loaded_ends_the_start_with_its_reason(unservable, tmp_path):
    settings = Settings(metrics_port=0, model_repository=[unservable], grpc_address=[f"unix:{tmp_path}/socket"])

    with pytest.raises(LoadError, match='asks for backend: "onnxruntime"'):
        asyncio.run(Server(settings).run())


def test_server_goes_on_without_the_model_where_the_options_say_so_and_is_not_ready(unservable, tmp_path):
    async def main():
        async with running(unservable, tmp_path / "socket", exit_on_error=False, server_id="mine") as (_, client):
            assert await client.is_server_live()
            assert not await client.is_server_ready()
            assert not await client.is_model_ready("onnx")
            assert (await client.get_server_metadata()).name == "mine"
            terminate()

    asyncio.run(main())


@pytest.fixture
def half_servable(unservable, export):
    """The same, and beside it two models that load, one before it and one after it."""
    for name in ("clip", "piano"):
        shutil.copytree(export("module"), unservable / name / "1")
    return unservable


def test_exit_on_error_ends_the_start_when_one_model_of_several_fails_with_its_name_and_reason(
    half_servable, tmp_path, caplog
):
    settings = Settings(metrics_port=0, model_repository=[half_servable], grpc_address=[f"unix:{tmp_path}/socket"])

    with pytest.raises(LoadError, match=r"^model 'onnx': .*asks for backend: \"onnxruntime\""):
        asyncio.run(Server(settings).run())
    (line,) = [each.getMessage() for each in caplog.records if "onnxruntime" in each.getMessage()]
    assert "model 'onnx'" in line


def test_without_exit_on_error_the_other_models_are_served_and_the_failed_one_says_why(half_servable, tmp_path, caplog):
    async def main():
        async with running(half_servable, tmp_path / "socket", exit_on_error=False) as (_, client):
            while not await client.is_model_ready("piano"):  # it is loaded last
                pass
            value = triton.InferInput("x", [2, 4], "FP32").set_data_from_numpy(np.ones((2, 4), np.float32))
            for name in ("clip", "piano"):
                assert await client.is_model_ready(name)
                answer = await client.infer(name, [value], client_timeout=WAIT_S)
                assert len(answer.as_numpy("y")) == 2
            assert not await client.is_server_ready()
            listed = {each.name: each for each in (await client.get_model_repository_index()).models}
            states = {"clip": "READY", "onnx": "UNAVAILABLE", "piano": "READY"}
            assert {name: each.state for name, each in listed.items()} == states
            assert 'backend: "onnxruntime"' in listed["onnx"].reason
            terminate()

    asyncio.run(main())
    (line,) = [each.getMessage() for each in caplog.records if "onnxruntime" in each.getMessage()]
    assert "model 'onnx'" in line


def statuses(caplog):
    """Ask over HTTP whether the server is live and whether it is ready."""
    address = re.findall(r"listening for HTTP at (\S+)", caplog.text)[-1]
    found = []
    for word in ("live", "ready"):
        connection = http.client.HTTPConnection(address, timeout=WAIT_S)
        with closing(connection):
            connection.request("GET", f"/v2/health/{word}")
            found.append(connection.getresponse().status)
    return found


def test_probes_over_http_tell_every_state_of_the_server(unservable, tmp_path, caplog):
    caplog.set_level(logging.INFO, "service")

    async def main():
        options = {"model_control_mode": "explicit", "load_model": ["*"], "exit_on_error": False, "drain_delay": 1000}
        async with running(unservable, tmp_path / "socket", **options) as (_, client):
            assert statuses(caplog) == [200, 503]  # a model failed
            await client.unload_model("onnx")
            assert statuses(caplog) == [200, 200]
            terminate()
            while statuses(caplog) != [200, 503]:  # it drains, and goes on to answer
                assert await client.is_server_live()
            terminate()

    asyncio.run(main())
    with pytest.raises(ConnectionRefusedError):
        statuses(caplog)


def test_server_is_not_live_while_the_threads_that_receive_calls_hang(unservable, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "service")
    released = threading.Event()
    monkeypatch.setattr(Servicer, "infer", lambda *_: _hang(released))

    async def main():
        options = {"transport": "native", "exit_on_error": False, "stuck_run_timeout": 0.1}
        async with running(unservable, tmp_path / "socket", **options) as (_, client):
            call = asyncio.create_task(client.infer("onnx", []))
            while (await asyncio.to_thread(statuses, caplog))[0] == 200:
                pass
            assert re.search(r"not live: unix:\S+/socket: no thread receives calls for more than 0.1 s", caplog.text)
            released.set()
            with pytest.raises(InferenceServerException, match="it hung"):
                await call
            while (await asyncio.to_thread(statuses, caplog))[0] == 503:
                pass
            terminate()

    asyncio.run(main())


def _hang(released):
    assert released.wait(WAIT_S)
    raise UnavailableError("it hung")


def test_server_answers_during_the_drain_delay_and_a_second_signal_cuts_it_short(unservable, tmp_path):
    async def main():
        options = {"exit_on_error": False, "drain_delay": 1000}
        async with running(unservable, tmp_path / "socket", **options) as (server, client):
            terminate()
            for _ in range(20):
                assert await client.is_server_live()
            assert not server.done()
            terminate()

    asyncio.run(main())


def test_signal_during_a_load_ends_the_server_without_it(unservable, tmp_path, monkeypatch):
    """A load cannot be stopped, and Kubernetes would wait with the end of the pod for its whole grace period."""
    begun, told_to_leave = threading.Event(), threading.Event()
    codes = []

    def load(_repository, _name):
        begun.set()
        assert told_to_leave.wait(WAIT_S)
        return []

    def leave(code):
        codes.append(code)
        told_to_leave.set()

    monkeypatch.setattr(Repository, "load", load)
    monkeypatch.setattr(server, "_leave", leave)

    async def main():
        settings = Settings(
            metrics_port=0, model_repository=[unservable], grpc_address=[f"unix:{tmp_path}/socket"], drain_delay=1000
        )
        running = asyncio.create_task(server.Server(settings).run())
        assert await asyncio.to_thread(begun.wait, WAIT_S)
        terminate()
        await asyncio.wait_for(running, WAIT_S)

    asyncio.run(main())
    assert codes == [0]


def test_name_that_two_models_have_ends_the_start(tmp_path):
    make(tmp_path, "a/clip/1/saved_model.pb", "b/clip/1/saved_model.pb")

    with pytest.raises(LoadError, match="two models are called 'clip'"):
        asyncio.run(Server(Settings(metrics_port=0, model_repository=[tmp_path / "a", tmp_path / "b"])).run())


def test_thread_counts_that_disagree_end_the_start(tmp_path):
    for name, count in (("bert", 2), ("clip", 3)):
        make(tmp_path, f"{name}/1/saved_model.pb")
        text = f'parameters {{ key: "TF_NUM_INTRA_THREADS" value {{ string_value: "{count}" }} }}'
        (tmp_path / name / "config.pbtxt").write_text(text)

    with pytest.raises(LoadError, match="TF_NUM_INTRA_THREADS holds for the whole process"):
        asyncio.run(Server(Settings(metrics_port=0, model_repository=[tmp_path])).run())


# Explicit control. -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load_model", [["onnx"], ["*"], ["onnx", "onnx"]])
def test_model_that_failed_at_the_start_no_longer_counts_once_it_is_unloaded(unservable, tmp_path, load_model):
    async def main():
        options = {"model_control_mode": "explicit", "load_model": load_model, "exit_on_error": False}
        async with running(unservable, tmp_path / "socket", **options) as (_, client):
            assert not await client.is_server_ready()
            await client.unload_model("onnx")
            assert await client.is_server_ready()
            terminate()

    asyncio.run(main())


def test_strict_readiness_goes_on_to_count_it(unservable, tmp_path):
    async def main():
        options = {"model_control_mode": "explicit", "load_model": ["*"], "exit_on_error": False}
        async with running(unservable, tmp_path / "socket", strict_readiness=True, **options) as (_, client):
            await client.unload_model("onnx")
            assert not await client.is_server_ready()
            terminate()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"load_model": ["onnx"]}, "--load-model is only for --model-control-mode explicit"),
        ({"load_model": ["nope"], "model_control_mode": "explicit"}, "--load-model nope: there is no model"),
    ],
)
def test_model_to_load_that_cannot_be_meant_ends_the_start(unservable, options, says):
    with pytest.raises(LoadError, match=says):
        asyncio.run(Server(Settings(metrics_port=0, model_repository=[unservable], **options)).run())


def test_options_say_who_may_call_what(unservable, tmp_path):
    (tmp_path / "admins").write_text("admin\n")

    async def main():
        socket, admins = tmp_path / "socket", tmp_path / "admins"
        async with running(unservable, socket, exit_on_error=False, admin_token_file=admins) as (_, client):
            with pytest.raises(InferenceServerException) as caught:
                await client.get_model_repository_index()
            assert caught.value.status() == "StatusCode.UNAUTHENTICATED"
            index = await client.get_model_repository_index(headers={"authorization": "Bearer admin"})
            assert [model.name for model in index.models] == ["onnx"]
            terminate()

    asyncio.run(main())


@pytest.mark.parametrize(
    "options", [{"token_file": "nowhere"}, {"grpc_restricted_protocol": ["x:y=z"]}, {"grpc_use_ssl": True}]
)
def test_access_that_cannot_be_controlled_as_asked_ends_the_start(unservable, tmp_path, options):
    address = [f"unix:{tmp_path}/socket"]

    with pytest.raises(LoadError):
        asyncio.run(
            Server(Settings(metrics_port=0, model_repository=[unservable], grpc_address=address, **options)).run()
        )
