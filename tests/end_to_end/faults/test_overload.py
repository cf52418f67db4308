"""2,000 callers at once against a slow model: quick refusals, no lost answer, bounded memory, full recovery."""

import asyncio
import json
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from statistics import median

import numpy as np
import pytest
from tritonclient.grpc import aio as triton
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import rows, tensors
from tests.end_to_end.readings import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

CALLERS = 2000
IN_FLIGHT = 300
ARRIVAL_S = 8.0
"""Within which the callers come: a server in Python takes some 1,000 calls a second on a small machine."""
RUN_MS = 1500
PAUSE_S = 4.0
WAIT_S = 300

LONE_CALLER = f"""
import json, select, sys, time
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException
from tests.end_to_end.calls import call, rows

x = rows(1)
x[0, 3] = {RUN_MS}
refused_after, answered, gave_up = [], 0, 0
with triton.InferenceServerClient(sys.argv[1]) as client:
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        began = time.monotonic()
        try:
            call(client, "kit", {{"x": x}}, "slow", client_timeout=0.5)
            answered += 1
        except InferenceServerException as error:
            if error.status() == "StatusCode.DEADLINE_EXCEEDED":
                gave_up += 1  # it was taken; who waits for a whole batch always finds the room that this one leaves
            else:
                assert "max_requests_in_flight" in error.message()
                refused_after.append(time.monotonic() - began)
print(json.dumps([refused_after, answered, gave_up]))
"""
"""One that does not share a process with 2,000 others, and so sees what the server takes and not what they do."""


class Caller:
    """Asks until it is answered, and notes how long each refusal took, and beside it a call that does nothing."""

    def __init__(self, client, number):
        self._client = client
        self._number = number
        self.refused_after = []
        self.empty_calls = []

    async def ask(self):
        await asyncio.sleep(self._number / CALLERS * ARRIVAL_S)
        x = rows(1, first_id=self._number)
        x[0, 3] = RUN_MS
        while True:
            began = time.monotonic()
            try:
                result = await self._client.infer("kit", tensors({"x": x}), parameters={"signature": "slow"})
            except InferenceServerException as error:
                if error.status() != "StatusCode.UNAVAILABLE" or "max_requests_in_flight" not in error.message():
                    raise
                told = time.monotonic()
                self.refused_after.append(told - began)
                await self._client.is_server_live()
                self.empty_calls.append(time.monotonic() - told)
                await asyncio.sleep(PAUSE_S)
            else:
                np.testing.assert_array_equal(result.as_numpy("y"), x[:, :2] * 10)
                return


@contextmanager
def lone_caller(server):
    """Let one ask beside the others; afterwards the yielded list has what it printed."""
    seen = []
    command = [sys.executable, "-c", LONE_CALLER, server.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield seen
            seen += json.loads(process.communicate("the end", timeout=WAIT_S)[0])
        finally:
            process.kill()


def metric(server, name):
    with urllib.request.urlopen(f"http://{server.http_address}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("transport", ["native", "grpcio"])
def test_server_refuses_quickly_answers_what_it_took_and_recovers(export, transport, note):
    options = ["--transport", transport, "--max-requests-in-flight", str(IN_FLIGHT)]
    with ServerProcess(export("kit"), *options) as server:
        server.wait_until_ready(WAIT_S)
        before_mib = server.resident_mib()
        with lone_caller(server) as seen:
            callers = asyncio.run(asyncio.wait_for(overload(server), WAIT_S))
        lone, answered, gave_up = seen
        spans = [span for caller in callers for span in caller.refused_after]
        empty = [span for caller in callers for span in caller.empty_calls]
        growth_mib = server.resident_mib() - before_mib
        note(
            f"{CALLERS:,} callers of a model that serves some 40 a second, {IN_FLIGHT} allowed at a time",
            "refusals under 100 ms, all who try again are answered, memory is bounded",
            f"{len(spans):,} refusals, median {1000 * median(spans):.0f} ms (of calls that do nothing "
            f"{1000 * median(empty):.0f} ms; for one who asks alone {1000 * median(lone):.0f} ms); "
            f"{len(callers):,} answered; {growth_mib:+.0f} MiB",
        )
        assert len(spans) > CALLERS
        assert median(lone) < 0.1
        # The callers share one process. Where the machine is busy, no call of theirs can be quicker than the emptiest.
        assert median(spans) < max(0.1, 3 * median(empty))
        assert metric(server, "signet_refused_requests_total") == len(spans) + len(lone)
        assert 0 <= metric(server, "nv_inference_request_success") - CALLERS - answered <= gave_up
        wait_until(lambda: metric(server, "signet_requests_in_flight") == 0)  # what was given up may still run
        assert metric(server, "nv_inference_pending_request_count") == 0
        assert growth_mib < 200
        assert server.stop(WAIT_S) == 0


async def overload(server):
    async with triton.InferenceServerClient(server.address) as client:
        callers = [Caller(client, number) for number in range(CALLERS)]
        await asyncio.gather(*(caller.ask() for caller in callers))
    return callers
