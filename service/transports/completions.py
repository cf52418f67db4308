"""Brings answers from worker threads to the event loop, a whole batch with one wake-up."""

import asyncio
import threading
from collections import deque
from typing import Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class Completions(Generic[T]):
    """A queue of results for futures of one event loop.

    ``put`` may be called from any thread. Waking the loop costs a system call, so it is done once for all results
    that arrive before the loop gets to them, and not at all for those that come from its own thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Create the queue, in the thread of the loop."""
        self._loop = loop
        self._thread = threading.get_ident()
        self._ready: deque[tuple[asyncio.Future[T], T]] = deque()
        self._wakeup_is_due = False
        self._waiting: WeakSet[asyncio.Future[T]] = WeakSet()

    def future(self) -> "asyncio.Future[T]":
        """Return a new future of the loop."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._waiting.add(future)
        return future

    def settle(self, result: T) -> None:
        """Give this result to every future that still waits; what comes for it later is dropped.

        Unlike ``put`` only for the thread of the loop.
        """
        for future in list(self._waiting):
            if not future.done():
                future.set_result(result)

    def put(self, future: "asyncio.Future[T]", result: T) -> None:
        """Set a future's result soon; one that was cancelled meanwhile is left alone."""
        if threading.get_ident() == self._thread:
            if not future.done():
                future.set_result(result)
            return
        self._ready.append((future, result))
        # Two threads may both see False and wake the loop twice, which is harmless. None is lost: `_flush` clears the
        # mark before it looks at the queue.
        if not self._wakeup_is_due:
            self._wakeup_is_due = True
            self._loop.call_soon_threadsafe(self._flush)

    def _flush(self) -> None:
        self._wakeup_is_due = False
        while self._ready:
            future, result = self._ready.popleft()
            if not future.done():
                future.set_result(result)
