"""What the machine does to the server: no room for its log, a clock that jumps, no memory left."""

import os
import resource
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, on_each_transport, rows
from tests.end_to_end.conftest import STOP_S
from tests.end_to_end.faults.hold import held
from tests.end_to_end.faults.plain_process import server_that_logs_to
from tests.end_to_end.readings import WAIT_S, readings, wait_until

pytestmark = pytest.mark.end_to_end

PENDING = ("nv_inference_pending_request_count",)


def full_disk():
    return Path("/dev/full").open("wb", buffering=0)


def broken_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    return os.fdopen(writing, "wb", buffering=0)


@pytest.mark.parametrize(
    ("transport", "log", "what"),
    [
        ("native", full_disk, "on a full disk"),
        ("grpcio", broken_pipe, "to a pipe that nobody reads"),
        pytest.param("native", broken_pipe, "to a pipe that nobody reads", marks=pytest.mark.slow),
        pytest.param("grpcio", full_disk, "on a full disk", marks=pytest.mark.slow),
    ],
)
def test_log_that_cannot_be_written_harms_no_call(tmp_path, note, transport, log, what):
    options = ["--model-control-mode", "explicit", "--transport", transport]
    with log() as stream, server_that_logs_to(stream, tmp_path / "socket", [tmp_path], *options) as (process, client):
        answered = 0
        for _ in range(50):
            with pytest.raises(InferenceServerException, match="failed to load 'nobody'"):
                client.load_model("nobody")  # each is a line of the log
            answered += client.is_server_live()
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_S)
    note(f"a log {what}", "every call is answered; exit code 0", f"{answered} of 50 answered; exit code {code}")
    assert code == 0


FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


@on_each_transport
@pytest.mark.slow
@pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed: apt-get install libfaketime")
def test_clock_that_jumps_ends_no_call_early_or_late(start, tmp_path, monkeypatch, note):
    clock = tmp_path / "clock"
    clock.write_text("+0")
    monkeypatch.setenv("LD_PRELOAD", str(FAKETIME))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", str(clock))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    server = start("faults", "--max-queue-delay-us", "50000")
    monkeypatch.delenv("LD_PRELOAD")
    late_s, answered = [], 0
    with triton.InferenceServerClient(server.address) as client:
        for step in ("+86400", "-86400", "+0"):
            with held(server, tmp_path):
                clock.write_text(step)
                for options in ({"client_timeout": 1.0}, {"timeout": 1_000_000}):
                    began = time.monotonic()
                    with pytest.raises(InferenceServerException):
                        call(client, "faults", {"x": rows(1)}, "logarithm", **options)
                    late_s.append(time.monotonic() - began - 1)
            answered += len(call(client, "faults", {"x": rows(3)}, "logarithm", client_timeout=WAIT_S)["y"])
        entry = client.get_inference_statistics("faults:logarithm").model_stats[0]
        told_s = entry.inference_stats.success.ns / 1e9 / entry.inference_stats.success.count
    note(
        "the clock jumps a day ahead, two days back, a day ahead",
        "deadlines and timeouts of 1 s end after 1 s; calls that run are answered; durations stay true",
        f"ended {min(late_s):+.2f} to {max(late_s):+.2f} s late; {answered} answered; mean latency told {told_s:.2f} s",
    )
    assert min(late_s) > -0.1
    assert max(late_s) < 2
    assert answered == 9
    assert 0.05 <= told_s < 5
    assert server.stop(STOP_S) == 0, server.end_of_log()


def address_space(pid):
    """Return the bytes of a process's address space."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()


@on_each_transport
@pytest.mark.slow
def test_run_that_gets_no_memory_fails_alone(start, note):
    server = start("kit")
    with triton.InferenceServerClient(server.address) as client:
        call(client, "kit", {"n": np.array(10, np.int32)}, "blow")
        resource.prlimit(server.pid, resource.RLIMIT_AS, (address_space(server.pid) + (1 << 30),) * 2)
        texts = set()
        for _ in range(5):
            with pytest.raises(InferenceServerException) as caught:
                call(client, "kit", {"n": np.array(500_000_000, np.int32)}, "blow")
            texts.add(f"{caught.value.status()} {caught.value.message()[:90]}")
            np.testing.assert_array_equal(call(client, "kit", {"x": rows(3)})["y"], rows(3)[:, :2] * 10)
    note(
        "runs that want 2 GB where 1 GiB is left (RLIMIT_AS)",
        "an error of that call alone; the next one is answered",
        f"{len(texts)} texts: {min(texts)}",
    )
    assert server.stop(STOP_S) == 0


@on_each_transport
@pytest.mark.slow
def test_requests_beyond_the_bytes_in_flight_are_refused_and_memory_is_bounded(start, tmp_path, note):
    limit_mib, request_mib, callers = 64, 8, 40
    server = start("faults", "--max-bytes-in-flight", str(limit_mib << 20))
    x = np.ones((request_mib << 16, 4), np.float32)
    outcomes = []

    def work():
        with triton.InferenceServerClient(server.address) as client:
            try:
                call(client, "faults", {"x": x}, "logarithm")
                outcomes.append("answered")
            except InferenceServerException as error:
                outcomes.append(f"{error.status()} {'max_bytes_in_flight' in error.message()}")

    work()
    before_mib = server.resident_mib()
    with held(server, tmp_path):
        threads = [threading.Thread(target=work) for _ in range(callers)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(outcomes) + readings(server, "faults")[PENDING] == 1 + callers)
        growth_mib = server.resident_mib() - before_mib
        refused = outcomes.count("StatusCode.UNAVAILABLE True")
    for thread in threads:
        thread.join()
    answered = outcomes.count("answered") - 1
    assert readings(server, "faults")[PENDING] == 0
    note(
        f"{callers} requests of {request_mib} MiB at once, --max-bytes-in-flight {limit_mib} MiB",
        "the rest is UNAVAILABLE and names the limit; what was taken is answered",
        f"{answered} answered, {refused} refused; {growth_mib:+.0f} MiB meanwhile",
    )
    assert (answered, refused) == (limit_mib // request_mib - 1, callers - limit_mib // request_mib + 1)
    assert growth_mib < 3 * limit_mib
    assert server.stop(STOP_S) == 0
