"""One request over one connection, and its answer. HTTP/1.1 itself is h11's; the limits are ours."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import h11

_MAX_HEAD_BYTES: Final = 8192
_MAX_LEFTOVER_BYTES: Final = 2**16
_READ_BYTES: Final = 4096

_METHODS: Final = (b"GET", b"HEAD")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a page may depend on.

    Attributes:
        target: path and query as they came.
        accept: the header of this name, or "".
    """

    target: str
    accept: str


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a request."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK


Pages = Callable[[Request], Page]
"""Makes the answer. Runs in the thread of the port, so it must be quick; what it raises ends in a fixed text."""


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pages: Pages, start: bytes) -> None:
    """Read a request and answer it; the connection is not used again, so that idle ones never pile up.

    Args:
        reader: of the connection.
        writer: likewise; the caller closes it.
        pages: makes the answer.
        start: what was read of the request already.

    Raises:
        OSError: the connection is broken.
    """
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=_MAX_HEAD_BYTES)
    connection.receive_data(start)
    wants_body = True
    try:
        request = await _read_request(connection, reader)
        if request is None:
            return
        wants_body = request.method != b"HEAD"
        page = _answer(request, pages)
    except h11.RemoteProtocolError as error:
        page = _refusal(HTTPStatus(error.error_status_hint))
    writer.write(_encode(connection, page, with_body=wants_body))
    await writer.drain()
    await _take_rest(reader, writer)


async def _read_request(connection: h11.Connection, reader: asyncio.StreamReader) -> h11.Request | None:
    """Return the head of the request, or None when the client left before it sent any."""
    while (event := connection.next_event()) is h11.NEED_DATA:
        # An empty read says that the client sends no more.
        connection.receive_data(await reader.read(_READ_BYTES))
    return event if isinstance(event, h11.Request) else None


def _answer(request: h11.Request, pages: Pages) -> Page:
    if request.method not in _METHODS:
        return _refusal(HTTPStatus.METHOD_NOT_ALLOWED)
    accept = b",".join(value for name, value in request.headers if name == b"accept")
    try:
        return pages(Request(request.target.decode("latin-1"), accept.decode("latin-1")))
    except Exception:
        logger.exception("unexpected error while answering %r over HTTP", request.target)
        return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


def _refusal(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status=status)


def _encode(connection: h11.Connection, page: Page, *, with_body: bool) -> bytes:
    headers = [
        ("content-type", page.content_type),
        ("content-length", str(len(page.body))),
        ("cache-control", "no-store"),
        ("connection", "close"),
    ]
    if page.status is HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append(("allow", b", ".join(_METHODS).decode()))
    events: list[h11.Event] = [h11.Response(status_code=page.status, reason=page.status.phrase, headers=headers)]
    if with_body:
        events.append(h11.Data(data=page.body))
    return b"".join(connection.send(event) or b"" for event in (*events, h11.EndOfMessage()))


async def _take_rest(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Let the client read its answer: to close over bytes that were not read would take it away from it."""
    writer.write_eof()
    left = _MAX_LEFTOVER_BYTES
    while left > 0 and (data := await reader.read(_READ_BYTES)):
        left -= len(data)
