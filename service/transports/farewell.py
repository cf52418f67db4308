"""Keeps callers waiting at the moment in which a gRPC server stops.

A call that reaches gRPC at that moment, or waits inside it, ends CANCELLED, which tells a client nothing and for which
no retry policy tries again (14 of 16 callers in a loop saw it). Who waits for an answer sends no other call meanwhile.
So calls are held until no more come, then gRPC stops and tells its clients to go, and only then the held calls end.
"""

import asyncio
from typing import Final

_LULL_S: Final = 0.05
"""For so long no call came: all callers wait, or there are none."""

_LONGEST_HOLD_S: Final = 0.4
"""Callers who do not wait for an answer before they call again leave no lull."""


class Farewell:
    """Holds calls between ``hold`` and ``release``. Belongs to one event loop."""

    def __init__(self) -> None:
        self._came_at = 0.0
        self._may_pass: Final = asyncio.Event()
        self._may_pass.set()

    def __repr__(self) -> str:
        return f"<Farewell {'passed' if self._may_pass.is_set() else 'held'}>"

    async def turn(self) -> None:
        """Return when a call may be answered: at once, except while calls are held."""
        if not self._may_pass.is_set():
            self._came_at = asyncio.get_running_loop().time()
            await self._may_pass.wait()

    async def hold(self, most_s: float) -> None:
        """Hold every call that comes from now on; return when no more come, after ``most_s`` seconds at the latest."""
        loop = asyncio.get_running_loop()
        self._may_pass.clear()
        self._came_at = loop.time()
        ends_at = self._came_at + min(most_s, _LONGEST_HOLD_S)
        while (wait_s := min(self._came_at + _LULL_S, ends_at) - loop.time()) > 0:  # noqa: ASYNC110 - it tells the time
            await asyncio.sleep(wait_s)

    def release(self) -> None:
        """Let all calls pass."""
        self._may_pass.set()
