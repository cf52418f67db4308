"""Callers who call again and again, and count what they get."""

import threading
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, rows

CALL_S = 30


@dataclass
class Outcomes:
    """What callers got."""

    answered: int = 0
    failed: Counter = field(default_factory=Counter)
    """Statuses, by caller and status."""

    def statuses(self):
        """Return how many calls failed with each status."""
        return Counter({status: self.failed[caller, status] for caller, status in self.failed})


class Load:
    """Callers who call again and again until the ``with`` block ends, over one channel."""

    def __init__(self, target, callers, channel_args, *, count=1, milliseconds=2):
        """Prepare callers who send so many rows at a time, for which the model takes so many milliseconds."""
        self.outcomes = Outcomes()
        self._client = triton.InferenceServerClient(target, channel_args=list(channel_args))
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._progress = threading.Condition(self._lock)
        self._x = rows(count)
        self._x[:, 3] = milliseconds
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(callers)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error):
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def wait_for_answers(self, count):
        """Return when so many further calls were answered."""
        with self._progress:
            goal = self.outcomes.answered + count
            assert self._progress.wait_for(lambda: self.outcomes.answered >= goal, 60)

    def _work(self, caller):
        x = self._x + np.array([caller, 0, 0, 0], np.float32)
        while not self._stop.is_set():
            try:
                y = call(self._client, "kit", {"x": x}, "slow", client_timeout=CALL_S)["y"]
            except InferenceServerException as error:
                with self._lock:
                    self.outcomes.failed[caller, error.status()] += 1
            else:
                np.testing.assert_array_equal(y, x[:, :2] * 10)
                with self._progress:
                    self.outcomes.answered += 1
                    self._progress.notify_all()
