"""Threads that wait for something to do, one of which keeps the time for all."""

import math
import threading
import time


class Sleepers:
    """The sleeping threads of a scheduler, all alike, on one condition.

    At most one of them keeps the time: it sleeps until the earliest time at which something is due. The others sleep
    until they are woken. A thread that is woken or whose time has come must look at everything that may be due, and
    before it turns to long work it must call ``wake_for`` with what is due next, because it may have kept the time.

    All methods are called with the lock held that the constructor was given.

    Attributes:
        num_waking: threads that were woken and have not come out of ``sleep`` yet.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self.num_waking = 0
        self._condition = threading.Condition(lock)
        self._num_asleep = 0
        self._watched_until = math.inf

    def sleep(self, due: float) -> None:
        """Sleep until woken, or until ``due`` (in the time of ``time.monotonic()``) if nobody watches it already."""
        keeps_time = due < self._watched_until
        if keeps_time:
            self._watched_until = due
        self._num_asleep += 1
        self._condition.wait(min(due - time.monotonic(), threading.TIMEOUT_MAX) if keeps_time else None)
        self._num_asleep -= 1
        self.num_waking = max(0, self.num_waking - 1)  # a thread whose time came may stand for one that was woken
        if keeps_time and self._watched_until == due:
            self._watched_until = math.inf

    def wake_for(self, due: float) -> None:
        """Wake a thread if something is due before the one that keeps the time will look."""
        if due < self._watched_until and self._num_asleep > self.num_waking:
            self.num_waking += 1
            self._condition.notify()

    def wake_all(self) -> None:
        """Wake every thread, because it is time to end."""
        self._condition.notify_all()
