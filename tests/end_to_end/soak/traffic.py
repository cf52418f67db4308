"""Callers who send known requests at a steady rate, check every answer and count every outcome."""

import queue
import threading
import time
from array import array
from collections import Counter
from functools import partial

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, rows, tensors
from tests.end_to_end.checks import CHECKS

CALLERS = 16
MOST_ROWS = 7
BAD_SHARE = 0.01
CANCELLED_SHARE = 0.01
CALLS_BY_CONNECTION = 2000
LAST_ID = 2**24 - 100
"""Row ids are floats, which are exact up to here."""
LOST_S = 30
"""A request without an outcome after so long is lost."""

EXPECTED = ("right", "refused as it should be", "cancelled", "past its deadline")


class _NobodyListensError(Exception):
    """A request has no outcome."""


class Traffic:
    """Callers of one server, each in a thread of its own."""

    def __init__(self, address):
        self._address = address
        self._stop = threading.Event()
        self._callers = []
        self._threads = []

    def start(self, rate=None):
        """Let all callers begin; together they send so many requests a second, None means as many as they can."""
        self._stop.clear()
        pause_s = 0 if rate is None else CALLERS / rate
        self._callers = [_Caller(self._address, number, pause_s, self._stop) for number in range(CALLERS)]
        self._threads = [threading.Thread(target=each.run) for each in self._callers]
        for thread in self._threads:
            thread.start()

    def stop(self):
        """Return when every request that was sent has its outcome."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    @property
    def is_whole(self):
        """Whether no caller has given up."""
        return all(thread.is_alive() for thread in self._threads)

    def count(self):
        """Return how many requests have their outcome."""
        return sum(each.count for each in self._callers)

    def outcomes(self):
        """Return how often each outcome came, and texts of some that should not have come."""
        total, texts = Counter(), []
        for caller in self._callers:
            total += caller.outcomes
            texts += caller.texts
        return total, texts

    def take_latencies(self):
        """Return the seconds of each right answer since the last time."""
        taken = []
        for caller in self._callers:
            latencies, caller.latencies_s = caller.latencies_s, array("d")
            taken.append(latencies)
        return np.concatenate(taken)


class _Caller:
    MOST_TEXTS = 3

    def __init__(self, address, number, pause_s, stop):
        self._address = address
        self._random = np.random.default_rng(number)  # so that a failure can be repeated
        self._pause_s = pause_s
        self._stop = stop
        self.count = 0
        self.outcomes = Counter()
        self.texts = []
        self.latencies_s = array("d")

    def run(self):
        due = time.monotonic() + self._random.uniform() * self._pause_s
        while not self._stop.is_set():
            with triton.InferenceServerClient(self._address) as client:
                for _ in range(CALLS_BY_CONNECTION):
                    if self._stop.wait(max(0, due - time.monotonic())):
                        return
                    self._send(client)
                    due += self._pause_s * self._random.uniform(0.5, 1.5)

    def _send(self, client):
        chance = self._random.uniform()
        send = self._send_good
        if chance < BAD_SHARE:
            send = self._send_bad
        elif chance < BAD_SHARE + CANCELLED_SHARE:
            send = self._send_and_leave
        try:
            outcome = send(client)
        except AssertionError as error:
            outcome = self._note("wrong", error)
        except _NobodyListensError as error:
            outcome = self._note("lost", error)
        except InferenceServerException as error:
            outcome = self._note("lost" if error.status() == "StatusCode.DEADLINE_EXCEEDED" else error.status(), error)
        self.outcomes[outcome] += 1
        self.count += 1

    def _note(self, outcome, error):
        if len(self.texts) < self.MOST_TEXTS:
            self.texts.append(f"{outcome}: {error}")
        return outcome

    def _send_good(self, client):
        check = CHECKS[self._random.integers(len(CHECKS))]
        began = time.monotonic()
        check(partial(call, client, "kit", client_timeout=LOST_S), self._first_id(), self._row_count())
        self.latencies_s.append(time.monotonic() - began)
        return "right"

    def _send_bad(self, client):
        send, status = BAD[self._random.integers(len(BAD))]
        try:
            send(partial(call, client, client_timeout=LOST_S), self._random)
        except InferenceServerException as error:
            if error.status() != f"StatusCode.{status}":
                raise
            return "refused as it should be"
        raise AssertionError("a bad request was answered")

    def _send_and_leave(self, client):
        """Cancel a request at once or let its deadline pass; it may be answered before that comes through."""
        x, outcomes = rows(self._row_count(), self._first_id()), queue.SimpleQueue()
        x[:, 3] = 5
        cancels = bool(self._random.integers(2))
        sent = client.async_infer(
            "kit",
            tensors({"x": x}),
            lambda result, error: outcomes.put((result, error)),
            parameters={"signature": "slow"},
            client_timeout=LOST_S if cancels else self._random.uniform(0.001, 0.01),
        )
        if cancels:
            sent.cancel()
        return self._outcome_of(x, *_outcome_in_time(outcomes))

    def _outcome_of(self, x, result, error):
        if error is None:
            np.testing.assert_array_equal(result.as_numpy("y"), x[:, :2] * 10)
            return "right"
        told = {"StatusCode.CANCELLED": "cancelled", "StatusCode.DEADLINE_EXCEEDED": "past its deadline"}
        if error.status() not in told:
            raise error
        return told[error.status()]

    def _first_id(self):
        return int(self._random.integers(1, LAST_ID))

    def _row_count(self):
        return int(self._random.integers(1, MOST_ROWS + 1))


def _outcome_in_time(outcomes):
    try:
        return outcomes.get(timeout=LOST_S)
    except queue.Empty:
        raise _NobodyListensError("a cancelled request has no outcome") from None


def _poison(ask, _):
    x = rows(2)
    x[1, 2] = -1
    ask("kit", {"x": x}, "picky")


def _wrong_shape(ask, _):
    ask("kit", {"x": np.zeros((2, 3), np.float32)}, "embed")


def _wrong_input(ask, _):
    ask("kit", {"no such input": rows(1)}, "embed")


def _unknown_signature(ask, random):
    ask("kit", {"x": rows(1)}, f"signature {random.integers(10**9)}")


def _unknown_model(ask, random):
    ask(f"model {random.integers(10**9)}", {"x": rows(1)})


BAD = [
    (_poison, "INTERNAL"),
    (_wrong_shape, "INVALID_ARGUMENT"),
    (_wrong_input, "INVALID_ARGUMENT"),
    (_unknown_signature, "INVALID_ARGUMENT"),
    (_unknown_model, "NOT_FOUND"),
]
"""What sends each kind of bad request, and the status that it must get."""
