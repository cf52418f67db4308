"""A port that answers HTTP on a thread and an event loop of its own, whatever the rest of the process is doing."""

import asyncio
import socket
import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from service.http.exchange import Form, Pages, Site, exchange
from service.http.splice import splice

_MAX_CONNECTIONS: Final = 64
"""Connections at a time. One more takes the place of the oldest, so that those who hold connections shut nobody out."""

_EXCHANGE_S: Final = 5.0
"""How long a client may take to send its request and to read the answer, together."""

_BACKLOG: Final = 128

_TURNS: Final = 3
"""Of the loop, within which a connection that is just being accepted comes to ``_accept``."""

_HTTP2: Final = b"PRI "
"""How connections of HTTP/2, and so of gRPC, begin; no request of HTTP/1 does."""


class HttpPort:
    """Serves pages from the first moment to the last. Made and closed by one thread."""

    def __init__(
        self,
        address: str,
        port: int,
        pages: Pages,
        grpc_path: str | None = None,
        forms: Mapping[str, Form] = MappingProxyType({}),
    ) -> None:
        """Bind the port and begin to answer.

        Args:
            address: an IP address or a host's name.
            port: 0 means any.
            pages: answers the requests, in the thread of this port.
            grpc_path: the Unix socket of a gRPC server that gets the connections which speak HTTP/2, if there is one.
            forms: take what is posted, by path.

        Raises:
            OSError: it cannot be bound; the text names it.
        """
        self._site: Final = Site(pages, forms)
        self._grpc_path: Final = grpc_path
        self._socket: Final = _bind(address, port)
        self.address: Final = _name(self._socket)
        self._open: Final[dict[asyncio.StreamWriter, asyncio.Task[None]]] = {}
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
        server = await asyncio.start_server(self._accept, sock=self._socket, backlog=_BACKLOG)
        await self._closing.wait()
        # asyncio loses a connection that is being accepted while its server closes, so accepting ends first.
        self._loop.remove_reader(self._socket)
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        server.close()
        while self._open:
            self._end_oldest()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = self._loop.create_task(self._serve(reader, writer))
        if len(self._open) > _MAX_CONNECTIONS:
            self._end_oldest()

    def _end_oldest(self) -> None:
        writer = next(iter(self._open))
        self._open.pop(writer).cancel()
        writer.transport.abort()  # a task that has not begun yet would not do it

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one connection; whatever its client does, it ends here and in time."""
        try:
            async with asyncio.timeout(_EXCHANGE_S) as limit:
                start = await _read_start(reader)
                if start != _HTTP2 or self._grpc_path is None:
                    await exchange(reader, writer, self._site, start, limit)
                    return
            # A watch of health lasts as long as its client likes.
            await splice(reader, writer, self._grpc_path, start)
        except (OSError, TimeoutError):
            pass  # the client left, or was too slow: it knows
        finally:
            writer.transport.abort()
            self._open.pop(writer, None)


async def _read_start(reader: asyncio.StreamReader) -> bytes:
    """Return enough of what comes to tell HTTP/2 from HTTP/1; less if the client sends no more."""
    start = b""
    while len(start) < len(_HTTP2) and (data := await reader.read(len(_HTTP2) - len(start))):
        start += data
    return start


def _bind(address: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][0]
        # As gRPC's own ports do, "::" takes callers over IPv4, too.
        both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server((address, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise OSError(f"cannot listen for HTTP on {address}, port {port}: {error.strerror or error}") from error


def _name(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
