"""Calls that last as long as their client likes: streams of requests, health watches, reflection."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import UnavailableError


class LastingCalls:
    """Ends what would otherwise keep a stopping server waiting for its clients. Belongs to one event loop."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self._stopped = False

    def __repr__(self) -> str:
        return f"<LastingCalls {len(self._tasks)} open{', stopped' if self._stopped else ''}>"

    @contextmanager
    def until_stop(self) -> Iterator[None]:
        """Run the block's waits until ``stop``, which interrupts the one of that moment.

        Raises:
            UnavailableError: the server stops, or had stopped before.
        """
        task = asyncio.current_task()
        if self._stopped or task is None:
            raise _stopping()
        self._tasks.add(task)
        try:
            yield
        except asyncio.CancelledError:
            # Someone else may have cancelled the task as well: then its end is theirs.
            if not self._stopped or task.uncancel():
                raise
            raise _stopping() from None
        finally:
            self._tasks.discard(task)

    def stop(self) -> None:
        """Interrupt every block that runs, and refuse new ones."""
        if self._stopped:
            return
        self._stopped = True
        for task in self._tasks:
            task.cancel()


def _stopping() -> UnavailableError:
    return UnavailableError("the server is stopping")
