"""Many threads, all signatures, any number of rows: every row of every answer is right, and memory stays flat."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import tritonclient.grpc as triton

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, rows
from tests.end_to_end.checks import CHECKS
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

THREADS = 16
MAX_ROWS = 7


def send_mix(address, total):
    """Send ``total`` requests from all threads; a wrong answer raises."""

    def work(thread):
        # Seeded, so that a failure can be repeated.
        random = np.random.default_rng(thread)
        with triton.InferenceServerClient(address) as client:
            for index in range(total // THREADS):
                check = CHECKS[random.integers(len(CHECKS))]
                ask = partial(call, client, "kit")
                check(ask, 1 + thread * 1_000_000 + index * 10, int(random.integers(1, MAX_ROWS + 1)))

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def run_mix(export, total, warm_up):
    with ServerProcess(export("kit")) as server:
        server.wait_until_ready(START_S)
        send_mix(server.address, warm_up)
        before_mib = server.resident_mib()
        send_mix(server.address, total)
        after_mib = server.resident_mib()
        with triton.InferenceServerClient(server.address) as client:
            statistics = client.get_inference_statistics("kit").model_stats[0]
        assert server.stop(STOP_S) == 0
    return statistics, after_mib - before_mib


def assert_all_counted(statistics, total):
    assert statistics.inference_stats.success.count == total
    assert statistics.inference_stats.fail.count == 0
    assert max(batch.batch_size for batch in statistics.batch_stats) > MAX_ROWS


def test_every_row_is_right_under_mixed_load(export):
    total, warm_up = 4000, 2000
    statistics, growth_mib = run_mix(export, total, warm_up)

    assert_all_counted(statistics, total + warm_up)
    assert growth_mib < 30


@pytest.mark.slow
def test_every_row_of_20_000_requests_is_right_and_memory_is_flat(export):
    total, warm_up = 20_000, 6000
    statistics, growth_mib = run_mix(export, total, warm_up)

    assert_all_counted(statistics, total + warm_up)
    # Below 1 kB a request, which is what the allocator's own arenas still move by.
    assert growth_mib < 20


def test_good_requests_are_answered_while_a_poisonous_one_fails(server):
    """15 good requests and 1 bad one sent together: 15 answers and 1 error, each time."""
    rounds, good = 20, 15
    barrier = threading.Barrier(good + 1)

    def work(index):
        outcomes = []
        with triton.InferenceServerClient(server.address) as client:
            for number in range(rounds):
                x = rows(1, first_id=1 + number * 100 + index)
                if index == good:
                    x[0, 2] = -1
                barrier.wait()
                try:
                    (outcome,) = call(client, "kit", {"x": x}, "picky")["y"][:, 0] == x[:, 0] * 10
                except triton.InferenceServerException as error:
                    outcome = error.status()
                outcomes.append(outcome)
        return outcomes

    with ThreadPoolExecutor(good + 1) as pool:
        *answers, errors = list(pool.map(work, range(good + 1)))

    assert all(all(outcomes) for outcomes in answers)
    assert errors == ["StatusCode.INTERNAL"] * rounds
