"""A port that answers HTTP on a thread and an event loop of its own, whatever the rest of the process is doing."""

import asyncio
import socket
import threading
from typing import Final

from service.http.exchange import Pages, exchange

_MAX_CONNECTIONS: Final = 64
"""Connections at a time. One more takes the place of the oldest, so that those who hold connections shut nobody out."""

_EXCHANGE_S: Final = 5.0
"""How long a client may take to send its request and to read the answer, together."""

_BACKLOG: Final = 128


class HttpPort:
    """Serves pages from the first moment to the last. Made and closed by one thread."""

    def __init__(self, address: str, port: int, pages: Pages) -> None:
        """Bind the port and begin to answer.

        Args:
            address: an IP address or a host's name.
            port: 0 means any.
            pages: answers the requests, in the thread of this port.

        Raises:
            OSError: it cannot be bound; the text names it.
        """
        self._pages: Final = pages
        self._socket: Final = _bind(address, port)
        self.address: Final = _name(self._socket)
        self._open: Final[dict[asyncio.StreamWriter, None]] = {}
        self._loop: Final = asyncio.new_event_loop()
        self._closing: Final = asyncio.Event()
        self._thread: Final = threading.Thread(target=self._run, name="http", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<HttpPort {self.address}: {len(self._open)} connections>"

    def close(self) -> None:
        """Answer nobody any more; returns when the thread has ended."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # its end cancels what is left
            runner.run(self._serve_until_closed())

    async def _serve_until_closed(self) -> None:
        server = await asyncio.start_server(self._serve, sock=self._socket, backlog=_BACKLOG)
        await self._closing.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; whatever its client does, it ends here and in time."""
        self._open[writer] = None
        if len(self._open) > _MAX_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(_EXCHANGE_S):
                await exchange(reader, writer, self._pages)
        except (OSError, TimeoutError):
            pass  # the client left, or was too slow: it knows
        finally:
            writer.transport.abort()
            self._open.pop(writer, None)


def _bind(address: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise OSError(f"cannot listen for HTTP on {address}, port {port}: {error.strerror or error}") from error


def _name(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
