"""Start and stop: what was taken is answered, and what cannot start says why in one line."""

import itertools
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import psutil
import pytest
import tritonclient.grpc as triton
from grpc_health.v1 import health_pb2, health_pb2_grpc

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, rows, tensors
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end


def run_signet(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "service", *map(str, arguments)],
        capture_output=True, text=True, timeout=120, check=False, env={**os.environ, "SIGNET_METRICS_PORT": "0"},
    )  # fmt: skip


def one_line_without_traceback(run):
    """Return the program's own line on standard error, after checking that it is the only thing it says."""
    own = [line for line in run.stderr.splitlines() if line.startswith("signet: ")]
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    assert len(own) == 1, run.stderr
    return own[0]


def test_missing_path_is_one_clear_line(tmp_path):
    assert "no such directory" in one_line_without_traceback(
        run_signet("serve", tmp_path / "nothing", "--grpc-port", 0)
    )


def test_empty_directory_is_one_clear_line(tmp_path):
    assert "no model found" in one_line_without_traceback(run_signet("serve", tmp_path, "--grpc-port", 0))


def test_no_path_is_one_clear_line():
    assert "nothing to serve" in one_line_without_traceback(run_signet("serve", "--grpc-port", 0))


def test_wrong_option_is_one_clear_line(tmp_path):
    line = one_line_without_traceback(run_signet("serve", tmp_path, "--grpc-port", 70_000))
    assert "--grpc-port" in line


def test_port_in_use_is_one_clear_line(export):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = one_line_without_traceback(run_signet("serve", export("kit"), "--grpc-port", port))

    assert f"127.0.0.1:{port}" in line


@pytest.mark.parametrize("damage", ["cut graph", "no variables", "cut variables"])
def test_broken_saved_model_is_one_clear_line(export, tmp_path, damage):
    path = tmp_path / "broken"
    subprocess.run(["cp", "-r", export("module"), path], check=True)
    (data,) = path.glob("variables/variables.data*")
    graph = path / "saved_model.pb"
    if damage == "cut graph":
        graph.write_bytes(graph.read_bytes()[: graph.stat().st_size // 2])
    elif damage == "no variables":
        for file in path.glob("variables/*"):
            file.unlink()
    else:
        data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])

    assert str(path) in one_line_without_traceback(run_signet("serve", path, "--grpc-port", 0))


def test_inspect_prints_every_signature(export):
    run = run_signet("inspect", export("kit"))

    assert run.returncode == 0, run.stderr
    for text in ("serving_default", "x FP32[-1,4]", "info", "it takes no inputs", "output m FP32[]"):
        assert text in " ".join(run.stdout.split())


@pytest.mark.parametrize(("number", "transport"), [(signal.SIGTERM, "native"), (signal.SIGINT, "grpcio")])
def test_what_was_taken_is_answered_before_the_server_ends(export, number, transport):
    callers = 8
    started = threading.Barrier(callers + 1)

    def work(address, index):
        x = rows(1, first_id=index + 1)
        x[0, 3] = 1000  # the model sleeps so many milliseconds
        with triton.InferenceServerClient(address) as client:
            assert client.is_server_live()
            started.wait()
            return call(client, "kit", {"x": x}, "slow")["y"][0, 0]

    with ServerProcess(export("kit"), "--transport", transport) as server:
        server.wait_until_ready(START_S)
        with ThreadPoolExecutor(callers) as pool:
            answers = [pool.submit(work, server.address, index) for index in range(callers)]
            started.wait()
            while sum(answer.done() for answer in answers) + requests_in_flight(server) < callers:
                time.sleep(0.05)  # until every request was taken
            server.send_signal(number)
            ids = [answer.result() for answer in answers]
        code = server.wait(STOP_S)

    assert code == 0
    np.testing.assert_array_equal(10.0 * np.arange(1, callers + 1), ids)


def requests_in_flight(server):
    with urllib.request.urlopen(f"http://{server.http_address}/metrics", timeout=START_S) as answer:
        return int(float(re.search(r"^signet_requests_in_flight (.+)$", answer.read().decode(), re.MULTILINE)[1]))


def test_health_is_told_to_standard_probes(server):
    with grpc.insecure_channel(server.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", "inference.GRPCInferenceService", "readiness", "liveness", "kit"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING, name
        with pytest.raises(grpc.RpcError) as caught:
            stub.Check(health_pb2.HealthCheckRequest(service="nope"), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.fixture(scope="module")
def socket_server(export, tmp_path_factory):
    """A server with one worker that listens on a Unix socket too; returns the socket's address."""
    address = f"unix:{tmp_path_factory.mktemp('run')}/signet.sock"
    options = ("--grpc-address", "127.0.0.1", "--grpc-address", address, "--instance-count", "1")
    with ServerProcess(export("kit"), *options) as server:
        server.wait_until_ready(START_S)
        yield address
        assert server.stop(STOP_S) == 0


def test_unix_socket_serves_stock_clients(socket_server):
    with triton.InferenceServerClient(socket_server) as client:
        np.testing.assert_array_equal(rows(2)[:, :2] * 10, call(client, "kit", {"x": rows(2)})["y"])


def test_caller_that_leaves_is_not_computed_for(socket_server):
    """Requests whose deadline passes while the only worker is busy are dropped from the queue."""
    busy, late = rows(1), 10
    busy[0, 3] = 3000
    outcomes = queue.Queue()
    with triton.InferenceServerClient(socket_server) as client:

        def send(x, name, **options):
            def done(result, error):
                outcomes.put((name, result, error))

            client.async_infer("kit", tensors({"x": x}), done, parameters={"signature": "slow"}, **options)

        send(busy, "busy")
        # One connection: when this is answered, the busy request was taken.
        assert client.is_server_live()
        for _ in range(late):
            send(rows(1), "late", client_timeout=0.5)
        answers = [outcomes.get(timeout=60) for _ in range(late + 1)]
        entry = client.get_inference_statistics("kit:slow").model_stats[0]

    assert [name for name, _, error in answers if error is None] == ["busy"]
    assert {error.status() for name, _, error in answers if name == "late"} == {"StatusCode.DEADLINE_EXCEEDED"}
    assert (entry.execution_count, entry.inference_count, entry.inference_stats.fail.count) == (1, 1, late)


def send_and_forget(client, milliseconds):
    """Send a request that sleeps so long, and return once the server took it; what becomes of it comes to the queue."""
    x, told = rows(1), queue.Queue()
    x[0, 3] = milliseconds
    client.async_infer(
        "kit", tensors({"x": x}), lambda result, error: told.put((result, error)), parameters={"signature": "slow"}
    )
    assert client.is_server_live()
    return told


def test_server_ends_after_the_drain_timeout_although_a_run_does_not(export):
    with ServerProcess(export("kit"), "--drain-timeout", "0.5") as server:
        server.wait_until_ready(START_S)
        with triton.InferenceServerClient(server.address) as client:
            send_and_forget(client, 60_000)
            started = time.monotonic()
            server.send_signal(signal.SIGTERM)
            code = server.wait(STOP_S)

    assert code == 1
    assert time.monotonic() - started < 30
    assert "a model still runs after the drain timeout" in server.end_of_log()


def test_second_signal_hurries(export):
    with ServerProcess(export("kit"), "--drain-delay", "600") as server:
        server.wait_until_ready(START_S)
        with triton.InferenceServerClient(server.address) as client:
            server.send_signal(signal.SIGTERM)
            while client.is_server_ready():
                pass
            assert call(client, "kit", {"x": rows(1)})["y"][0, 0] == 10
        server.send_signal(signal.SIGTERM)

        assert server.wait(STOP_S) == 0


def test_second_signal_ends_calls_that_still_run(export):
    with ServerProcess(export("kit"), "--drain-timeout", "600") as server:
        server.wait_until_ready(START_S)
        with triton.InferenceServerClient(server.address) as client:
            told = send_and_forget(client, 60_000)
            server.send_signal(signal.SIGTERM)
            while client.is_server_ready():
                pass
            server.send_signal(signal.SIGTERM)
            _, error = told.get(timeout=30)
        code = server.wait(STOP_S)

    assert error.status() == "StatusCode.UNAVAILABLE"
    assert code == 1


def test_first_process_of_a_container_ends_with_exit_code_0(tmp_path):
    inner = [sys.executable, "-m", "service", "serve", tmp_path, "--model-control-mode", "explicit"]
    options = ["--grpc-port", "0", "--metrics-port", "0"]
    command = ["unshare", "--fork", "--pid", "--kill-child", *map(str, inner), *options]
    if subprocess.run([*command[:4], "true"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make process namespaces")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as outside:
        first_lines = list(itertools.takewhile(lambda line: "ready" not in line, outside.stderr))
        (server,) = psutil.Process(outside.pid).children()
        # The kernel delivers to the first process of a namespace only signals that it handles.
        server.send_signal(signal.SIGTERM)
        _, rest = outside.communicate(timeout=STOP_S)

    assert " 1 service" in first_lines[0]  # the process number that the log tells
    assert outside.returncode == 0
    assert "stopped" in rest
