"""SIGTERM while calls come: what was taken is answered, what is refused was never run, and others take over."""

import itertools
import json
import signal
import threading
from collections import Counter
from contextlib import ExitStack

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, on_each_transport, rows
from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.readings import WAIT_S

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

CALLERS = 16
ANSWERS_BEFORE = 400
REFUSALS_EACH = 20
FIRST_ID = 10**12
"""Ids of the warm-up are below."""


class Load:
    """Callers that call again at once, until each was refused a number of times."""

    def __init__(self, address):
        self._address = address
        self._ids = itertools.count(FIRST_ID)
        self._lock = threading.Lock()
        self.outcomes = {}
        self.many_answers = threading.Event()
        self._threads = [threading.Thread(target=self._work) for _ in range(CALLERS)]
        for thread in self._threads:
            thread.start()

    def _work(self):
        refusals = 0
        with triton.InferenceServerClient(self._address) as client:
            while refusals < REFUSALS_EACH:
                with self._lock:
                    number = next(self._ids)
                try:
                    call(client, "notes", {"ids": np.array([number])}, client_timeout=WAIT_S)
                    outcome = "answered"
                except InferenceServerException as error:
                    outcome = error.status()
                    refusals += 1
                self.outcomes[number] = outcome
                if len(self.outcomes) >= ANSWERS_BEFORE:
                    self.many_answers.set()

    def join(self):
        for thread in self._threads:
            thread.join()


@on_each_transport
def test_end_under_load_loses_nothing_that_was_taken_and_runs_nothing_that_was_refused(start, export, note):
    server = start("notes")
    load = Load(server.address)
    assert load.many_answers.wait(WAIT_S)
    server.send_signal(signal.SIGTERM)
    code = server.wait(STOP_S)
    load.join()
    lines = Counter(map(int, export("notes").with_suffix(".txt").read_text().split()))
    run = {number for number in lines if number >= FIRST_ID and number in load.outcomes}
    answered = {number for number, outcome in load.outcomes.items() if outcome == "answered"}
    note(
        f"SIGTERM with {CALLERS} callers that call again at once",
        "what was run is answered; the rest is UNAVAILABLE and was never run; exit code 0",
        f"{len(answered)} answered, {len(run - answered)} run and not answered, {len(load.outcomes) - len(answered)} "
        f"refused, {len(run & (load.outcomes.keys() - answered))} of them run; exit code {code}",
    )
    assert run == answered
    assert set(load.outcomes.values()) == {"answered", "StatusCode.UNAVAILABLE"}
    assert max(lines[number] for number in run) == 1
    assert code == 0
    export("notes").with_suffix(".txt").write_text("")  # the ids of the other transport are the same


HEALTH = {"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "readiness"}}
RETRIES = {
    "loadBalancingConfig": [{"round_robin": {}}],
    "methodConfig": [
        {
            "name": [{"service": "inference.GRPCInferenceService"}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
}


@pytest.mark.parametrize(
    ("transport", "client_has", "policy", "options"),
    [
        ("grpcio", "health checks of gRPC, --drain-delay 2", HEALTH, ["--drain-delay", "2"]),
        ("grpcio", "a retry policy", RETRIES, []),
        ("native", "a retry policy", RETRIES, []),
    ],
    ids=["grpcio-health", "grpcio-retries", "native-retries"],
)
def test_stock_clients_with_another_server_see_no_error(export, note, transport, client_has, policy, options):
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(ServerProcess(export("kit"), "--transport", transport, *options)) for _ in range(2)
        )
        for server in (first, second):
            server.wait_until_ready(START_S)
        url = f"ipv4:{first.address},{second.address}"
        arguments = [("grpc.service_config", json.dumps(policy)), ("grpc.default_authority", "signet")]
        stop, counts, errors = threading.Event(), Counter(), []

        def work(index):
            with triton.InferenceServerClient(url, channel_args=arguments) as client:
                while not stop.is_set():
                    x = rows(1, first_id=index)
                    try:
                        np.testing.assert_array_equal(
                            call(client, "kit", {"x": x}, client_timeout=WAIT_S)["y"], x[:, :2] * 10
                        )
                        counts[index] += 1
                    except InferenceServerException as error:
                        errors.append(str(error))

        def all_have(more):
            return all(counts[index] >= more[index] for index in range(4))

        threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_for(lambda: all_have([50] * 4))
            first.send_signal(signal.SIGTERM)
            code = first.wait(STOP_S)
            further = [counts[index] + 50 for index in range(4)]
            wait_for(lambda: all_have(further))
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        note(
            f"SIGTERM with another server to go to; stock clients with {client_has}",
            "no client sees an error",
            f"{sum(counts.values())} answers, {len(errors)} errors{errors[:1] or ''}; exit code {code}",
        )
    assert errors == []
    assert code == 0


def wait_for(holds):
    finished = threading.Event()
    for _ in range(int(WAIT_S / 0.05)):
        if holds():
            return
        finished.wait(0.05)
    raise AssertionError("not in time")
