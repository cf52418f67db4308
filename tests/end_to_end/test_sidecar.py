"""The sidecar as its manifest starts it: taken over after a kill, probed, drained within its grace period."""

import contextlib
import re
import signal
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
import tritonclient.grpc as triton

from clients.server_process import ServerProcess
from tests.deploy.manifests import pod, resources
from tests.end_to_end.calls import call, rows
from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.kubelet import Kubelet

pytestmark = pytest.mark.end_to_end

LONG_MS = 1500
CALLERS = 4


@pytest.fixture
def sidecar(tmp_path):
    return pod(resources("sidecar", tmp_path / "overlay"))


@pytest.fixture
def url(sidecar, tmp_path, monkeypatch):
    """Set the environment that the manifest gives the server, on free ports; return what the application calls."""
    socket = f"unix:{tmp_path}/signet.sock"
    environment = sidecar.environment | {
        "SIGNET_GRPC_ADDRESS": sidecar.environment["SIGNET_GRPC_ADDRESS"].replace(
            "unix:/run/signet/signet.sock", socket
        ),
        "SIGNET_HEALTH_ADDRESS": "127.0.0.1",
        "SIGNET_HEALTH_PORT": "0",
        "SIGNET_LOG_VERBOSE": "1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return socket


def test_from_a_killed_predecessor_to_the_end_of_the_pod(sidecar, export, url, tmp_path):
    leave_stale_socket(export("kit"), tmp_path / "signet.sock")
    readiness, liveness = (sidecar.server[name]["grpc"]["service"] for name in ("readinessProbe", "livenessProbe"))

    with ServerProcess(export("kit")) as server:
        server._wait_for_address(START_S)
        with Kubelet(server.probes_address, readiness, liveness) as kubelet:
            kubelet.wait_until_heard(readiness, "NOT_SERVING")
            assert not has_warmed_up(server)
            kubelet.wait_until_heard(readiness, "NOT_SERVING", "SERVING")
            assert has_warmed_up(server)

            with ask_for_long(url, server) as answers:
                told = time.monotonic()
                server.send_signal(signal.SIGTERM)
                kubelet.wait_until_heard(readiness, "NOT_SERVING", "SERVING", "NOT_SERVING")
                assert [answer.result() for answer in answers] == [10.0 * number for number in range(CALLERS)]
            code = server.wait(STOP_S)
            took_s = time.monotonic() - told
            kubelet.wait_until_heard(liveness, "SERVING", "UNAVAILABLE")

    assert code == 0
    assert took_s < sidecar.spec["terminationGracePeriodSeconds"]


def leave_stale_socket(model, path):
    """Kill a server as a lack of memory does, once it listens; its socket stays."""
    with ServerProcess(model) as server:
        server._wait_for_address(START_S)
        server.send_signal(signal.SIGKILL)
        server.wait(STOP_S)
    assert path.is_socket()


def has_warmed_up(server):
    return any("warmed up model 'kit'" in line for line in server._log)


@contextlib.contextmanager
def ask_for_long(url, server):
    """Have long requests on their way through the socket; the server has taken them when the block begins."""

    def ask(number):
        x = rows(1, first_id=number)
        x[0, 3] = LONG_MS
        return call(client, "kit", {"x": x}, "slow")["y"][0, 0]

    with triton.InferenceServerClient(url) as client, ThreadPoolExecutor(CALLERS) as pool:
        answers = [pool.submit(ask, number) for number in range(CALLERS)]
        while requests_in_flight(server) < CALLERS:
            assert not any(answer.done() for answer in answers)
        yield answers


def requests_in_flight(server):
    with urllib.request.urlopen(f"http://{server.probes_address}/metrics", timeout=STOP_S) as answer:
        return float(re.search(r"^signet_requests_in_flight (.*)$", answer.read().decode(), re.MULTILINE)[1])
