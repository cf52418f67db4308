"""How much one stream may hold, so that a client that only sends cannot fill the server's memory."""

import asyncio


class Allowance:
    """Counts what a stream holds. There is room while both counts are below their limits.

    So one request is always let in, however large, and the last one that is let in may exceed the limit of bytes.
    """

    def __init__(self, max_requests: int, max_bytes: int) -> None:
        """Create an allowance of which nothing is used.

        Args:
            max_requests: requests that were taken and whose answers were not sent yet.
            max_bytes: of those requests, and of those of their answers that wait to be sent.
        """
        self._max_requests = max_requests
        self._max_bytes = max_bytes
        self._requests = 0
        self._bytes = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    def __repr__(self) -> str:
        return f"<Allowance {self._requests}/{self._max_requests} requests, {self._bytes}/{self._max_bytes} bytes>"

    def use(self, *, requests: int = 0, nbytes: int = 0) -> None:
        """Use this much more of it; negative numbers give back."""
        self._requests += requests
        self._bytes += nbytes
        if self._requests < self._max_requests and self._bytes < self._max_bytes:
            self._has_room.set()
        else:
            self._has_room.clear()

    async def room(self) -> None:
        """Return when there is room."""
        await self._has_room.wait()
