"""What only the grpcio transport does: it runs what is quick in its event loop."""

import threading
import time

import numpy as np
import pytest

from tests.service.serving import kit, rows
from tests.service.transports import channels
from tests.service.transports.test_calls import connected, request, run, until

RUNS_UNTIL_TRUSTED = 5
LONG_S = 0.1


@pytest.fixture(autouse=True)
def on_grpcio(monkeypatch):
    """A busy machine must not make a run look slow that is not."""
    monkeypatch.setattr(channels, "kind", "grpcio")
    monkeypatch.setattr("batching.lane._QUICK_S", LONG_S)


def threads_of_runs(numbers):
    """Ask one after the other in the thread of the loop that serves, where a number is the seconds of a run."""
    threads = []

    def embed(inputs):
        threads.append(threading.current_thread())
        time.sleep(float(inputs["x"][0, 0]))
        return {"z": np.ones((1, 3), np.float32)}

    async def main(served, transport):
        scheduler = served.repository.find("clip", "").loaded.scheduler
        async with connected(transport) as stub:
            for number in numbers:
                await stub.ModelInfer(request(rows(number), signature="embed"))
                await until(lambda: not scheduler.counts().running_batches)

    run(main, kit(embed=embed))
    return threads


def test_what_is_known_to_be_quick_runs_in_the_event_loop():
    threads = threads_of_runs([0] * (RUNS_UNTIL_TRUSTED + 2))

    assert threading.current_thread() not in threads[:RUNS_UNTIL_TRUSTED]
    assert set(threads[RUNS_UNTIL_TRUSTED:]) == {threading.current_thread()}


def test_signature_whose_run_was_once_long_is_left_to_the_workers():
    threads = threads_of_runs([*[0] * (RUNS_UNTIL_TRUSTED + 1), LONG_S, *[0] * 20])

    assert len(threads) == RUNS_UNTIL_TRUSTED + 22
    assert threading.current_thread() not in threads[RUNS_UNTIL_TRUSTED + 2 :]
