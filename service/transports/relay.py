"""Two threads that relieve each other, so that one may do at once what it received and still nothing is held up."""

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

Items = TypeVar("Items")
Errand = Callable[[], None]

_PATIENCE_S: Final = 0.01
"""How long an errand may take before the other thread receives instead."""

_VIGIL_S: Final = 0.1
"""How long the other thread goes on to look every so often after the last errand, before it must be woken anew."""


class Relay(Generic[Items]):
    """Receives from one source in one thread at a time, and runs errands in that thread.

    To wake a thread takes longer than most errands. So the thread that received runs them itself, while the other one
    looks every hundredth of a second whether it comes back. If it does not, the other one receives from then on, and
    the first one stands by when it comes back.
    """

    def __init__(self, name: str, receive: Callable[[], Items | None], take: Callable[[Items], Errand | None]) -> None:
        """Create the threads; ``start`` starts them.

        Args:
            name: what the threads are called.
            receive: waits for something; None is the end.
            take: is given what was received, in its order; it must be quick. What it returns is run next, and should
                be quick. Neither may raise.
        """
        self._receive: Final = receive
        self._take: Final = take
        self._lock: Final = threading.Lock()
        self._condition: Final = threading.Condition(self._lock)
        self._receiver: threading.Thread | None = None
        self._has_started = False
        self._has_ended = False
        self._errand_since: float | None = None
        self._busy_since: float | None = None
        self._busy_until = 0.0
        self._is_watched = True  # by a thread that looks every so often
        self._threads: Final = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(2)
        ]

    @property
    def busy_since(self) -> float | None:
        """Since when nobody receives, as the monotonic clock tells it; None while somebody does."""
        return self._busy_since

    @property
    def is_alive(self) -> bool:
        """Whether both threads run, or have not begun yet, or ended when they should."""
        return not self._has_started or self._has_ended or all(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start to receive."""
        for thread in self._threads:
            thread.start()
        self._has_started = True

    def join(self) -> None:
        """Wait until ``receive`` has told the end, but for no errand; at once if the threads were never started."""
        with self._condition:
            if self._has_started:
                self._condition.wait_for(lambda: self._has_ended)

    def _work(self) -> None:
        while self._wait_for_turn():
            while self._has_turn():
                self._busy_since = None
                received = self._receive()
                if received is None:
                    self._end()
                    return
                self._busy_since = time.monotonic()
                errand = self._take(received)
                del received  # it may be large, and the next one may be long in coming
                if errand is not None:
                    self._run(errand)
                    del errand

    def _run(self, errand: Errand) -> None:
        with self._lock:
            self._errand_since = time.monotonic()
            self._busy_until = self._errand_since + _VIGIL_S
            if not self._is_watched:
                self._is_watched = True
                self._condition.notify()
        errand()

    def _has_turn(self) -> bool:
        with self._lock:
            if self._receiver is not threading.current_thread():
                return False
            self._errand_since = None
            return True

    def _wait_for_turn(self) -> bool:
        """Stand by; returns whether to receive from now on, false at the end."""
        with self._condition:
            while not self._has_ended:
                now = time.monotonic()
                if self._receiver is None or self._is_held_up(now):
                    self._receiver, self._errand_since = threading.current_thread(), None
                    return True
                self._is_watched = now < self._busy_until
                self._condition.wait(_PATIENCE_S if self._is_watched else None)
            return False

    def _is_held_up(self, now: float) -> bool:
        return self._errand_since is not None and now - self._errand_since >= _PATIENCE_S

    def _end(self) -> None:
        with self._condition:
            self._has_ended = True
            self._condition.notify_all()
