"""The HTTP port of a running server: health for probes, metrics that equal what clients counted."""

import contextlib
import socket
from collections import Counter

import numpy as np
import pytest
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, on_each_transport, rows, tensors
from tests.end_to_end.readings import WAIT_S, fetch, gauge, keep_busy, readings, wait_until
from tests.end_to_end.test_perf_analyzer import PERF_ANALYZER, measure

pytestmark = pytest.mark.end_to_end


def slow_rows(milliseconds):
    x = rows(1)
    x[0, 3] = milliseconds
    return x


@pytest.mark.parametrize("path", ["v2/health/live", "v2/health/ready", "v2/models/kit/ready"])
def test_probes_over_http_agree_with_those_over_grpc(server, client, path):
    assert fetch(server, path)[0] == 200
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("kit")


@on_each_transport
def test_metrics_equal_what_the_client_counted_failures_by_reason_included(server, client):
    before = readings(server)
    seen = Counter()

    def send(x, signature, **options):
        try:
            call(client, "kit", {"x": x}, signature, **options)
            seen["success"] += 1
            seen["rows"] += len(x)
        except InferenceServerException as error:
            seen[error.status()] += 1

    for count in (1, 2, 5):
        send(rows(count), "embed")
    poison = rows(1)
    poison[0, 2] = -1
    for _ in range(2):
        send(poison, "picky")
    send(rows(1), "no such signature")
    send(np.zeros((1, 3), np.float32), "embed")
    busy = keep_busy(server, lambda: send(slow_rows(2500), "slow"))
    send(slow_rows(1), "slow", timeout=1000)
    send(slow_rows(1), "slow", client_timeout=0.05)
    for thread in busy:
        thread.join()
    wait_until(lambda: readings(server)["signet_running_requests", "slow"] == 0)
    after = readings(server)
    assert gauge(server, "signet_requests_in_flight") == gauge(server, "signet_bytes_in_flight") == 0

    assert seen == {
        "success": 5,
        "rows": 10,
        "StatusCode.INTERNAL": 2,
        "StatusCode.INVALID_ARGUMENT": 2,
        "StatusCode.UNAVAILABLE": 1,
        "StatusCode.DEADLINE_EXCEEDED": 1,
    }
    grown = {key: after[key] - before[key] for key in after}
    assert grown["nv_inference_request_success",] == 5
    assert grown["nv_inference_count",] == 10
    failures = {key[1]: count for key, count in grown.items() if key[0] == "nv_inference_request_failure"}
    assert failures == {"BACKEND": 2, "REJECTED": 1, "CANCELED": 1, "OTHER": 0}
    assert grown["signet_request_latency_seconds_count", "embed"] == 3
    assert grown["signet_dropped_requests", "timeout", "slow"] == 1
    assert after["nv_inference_pending_request_count",] == 0
    assert {value for key, value in after.items() if key[0].startswith("signet_queue_")} == {0}


@on_each_transport
def test_waiting_requests_are_seen_and_gone_once_they_are_cancelled(server, client):
    answers = []
    busy = keep_busy(server, lambda: call(client, "kit", {"x": slow_rows(2500)}, "slow"))
    waiting = [
        client.async_infer("kit", tensors({"x": rows(1)}), lambda result, error: answers.append(error))
        for _ in range(5)
    ]
    wait_until(lambda: readings(server)["nv_inference_pending_request_count",] == 5)
    for each in waiting:
        each.cancel()
    wait_until(lambda: readings(server)["nv_inference_pending_request_count",] == 0)
    wait_until(lambda: len(answers) == len(waiting))
    for thread in busy:
        thread.join()


@on_each_transport
def test_open_connections_are_told_while_they_last(server, client):
    assert client.is_server_live()
    before = gauge(server, "signet_open_connections")
    assert before >= 1
    host, _, port = server.address.rpartition(":")
    with contextlib.ExitStack() as opened:
        for _ in range(5):
            opened.enter_context(socket.create_connection((host, int(port)), WAIT_S))
        wait_until(lambda: gauge(server, "signet_open_connections") == before + 5)
    wait_until(lambda: gauge(server, "signet_open_connections") == before)


@pytest.mark.skipif(not PERF_ANALYZER.exists(), reason="perf_analyzer is not installed: make perf-analyzer")
def test_perf_analyzer_collects_metrics(server):
    url = f"{server.http_address}/metrics"
    run = measure(server.address, "-m", "kit", "--shape", "x:4", "--collect-metrics", "--metrics-url", url)

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Throughput" in run.stdout
    assert "Server Prometheus Metrics" in run.stdout  # it prints those of GPUs alone
