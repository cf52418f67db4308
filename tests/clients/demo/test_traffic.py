"""What becomes of requests that nobody answers; the demo itself shows what becomes of the others."""

import socket

import numpy as np
import pytest

from clients.demo.calls import Call, plan
from clients.demo.traffic import send_all


@pytest.fixture
def address():
    """A port that is taken and where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def requests():
    ids = np.arange(10, dtype=np.float32)
    return plan([Call("double", {"x": ids}, {"y": 2 * ids})], passes=2, max_rows=3, random=np.random.default_rng(0))


def test_a_request_that_reaches_nobody_is_a_fault(address, requests):
    outcomes = send_all(address, "model", requests, threads=3, timeout_s=30)
    assert {id(outcome.request) for outcome in outcomes} == {id(request) for request in requests}
    assert all("UNAVAILABLE" in outcome.fault for outcome in outcomes)


def test_a_request_for_which_no_time_is_left_is_a_fault(address, requests):
    outcomes = send_all(address, "model", requests, threads=3, timeout_s=0)
    assert [outcome.fault for outcome in outcomes] == ["not sent: no time was left"] * len(requests)
