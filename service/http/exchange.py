"""One request over one connection, and its answer. HTTP/1.1 itself is h11's; the limits are ours."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol

import h11

_MAX_HEAD_BYTES: Final = 8192
_MAX_LEFTOVER_BYTES: Final = 2**16
_READ_BYTES: Final = 4096

_METHODS: Final = (b"GET", b"HEAD")
_DEFECT: Final = "unexpected error while answering %r over HTTP"

Headers = Mapping[str, str]
"""By name in lower case."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """What a page may depend on.

    Attributes:
        target: path and query as they came.
        accept: the header of this name, or "".
        host: likewise: the name under which the client knows this server.
    """

    target: str
    accept: str
    host: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """The answer to a request."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: HTTPStatus = HTTPStatus.OK
    headers: Sequence[tuple[str, str]] = ()


Pages = Callable[[Request], Page]
"""Makes the answer. Runs in the thread of the port, so it must be quick; what it raises ends in a fixed text."""


class Form(Protocol):
    """Takes what clients send to one path. Everything runs in the thread of the port."""

    @property
    def most_bytes(self) -> int:
        """The largest body that is read."""
        ...

    @property
    def answer_s(self) -> float:
        """How long an answer may take, in seconds."""
        ...

    def refusal(self, headers: Headers) -> Page | None:
        """Return why a request is refused before its body is read, None when it is not."""
        ...

    async def answer(self, body: bytes) -> Page:
        """Answer a request. It is cancelled when the time is over."""
        ...


@dataclass(frozen=True, slots=True)
class Site:
    """What a port has to say.

    Attributes:
        pages: for GET and HEAD.
        forms: for POST, by path.
    """

    pages: Pages
    forms: Mapping[str, Form]


async def exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, site: Site, start: bytes, limit: asyncio.Timeout
) -> None:
    """Read a request and answer it; the connection is not used again, so that idle ones never pile up.

    Args:
        reader: of the connection.
        writer: likewise; the caller closes it.
        site: makes the answer.
        start: what was read of the request already.
        limit: of the exchange; a form puts it off.

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
        form = site.forms.get(_path(request)) if request.method == b"POST" else None
        if form is None:
            page = _answer(request, site.pages)
        else:
            page = await _take_form(connection, reader, request, form, limit)
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
    headers = _headers(request)
    try:
        return pages(Request(request.target.decode("latin-1"), headers.get("accept", ""), headers.get("host", "")))
    except Exception:
        logger.exception(_DEFECT, request.target)
        return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


async def _take_form(
    connection: h11.Connection,
    reader: asyncio.StreamReader,
    request: h11.Request,
    form: Form,
    limit: asyncio.Timeout,
) -> Page:
    headers = _headers(request)
    refused = form.refusal(headers) or _refuse_length(headers, form.most_bytes)
    if refused is not None:
        return refused
    body = await _read_body(connection, reader)
    until = limit.when()
    if until is not None:
        limit.reschedule(until + form.answer_s)
    try:
        return await form.answer(body)
    except Exception:
        logger.exception(_DEFECT, request.target)
        return _refusal(HTTPStatus.INTERNAL_SERVER_ERROR)


def _refuse_length(headers: Headers, most_bytes: int) -> Page | None:
    """Refuse a body that is too large, or in chunks: of those of one byte, a few megabytes take seconds to be read."""
    length = headers.get("content-length")
    if length is None or "transfer-encoding" in headers:
        return _refusal(HTTPStatus.LENGTH_REQUIRED)
    return _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE) if int(length) > most_bytes else None


async def _read_body(connection: h11.Connection, reader: asyncio.StreamReader) -> bytes:
    """Return the body of the request, whose length was checked."""
    body = bytearray()
    while not isinstance(event := connection.next_event(), h11.EndOfMessage):
        if isinstance(event, h11.Data):
            body += event.data
        elif event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_READ_BYTES))
        else:
            raise h11.RemoteProtocolError("the body ends too early")
    return bytes(body)


def _headers(request: h11.Request) -> Headers:
    """Return the headers by name in lower case, repeated ones joined by commas."""
    joined: dict[str, str] = {}
    for name, value in request.headers:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        joined[key] = f"{joined[key]},{text}" if key in joined else text
    return joined


def _path(request: h11.Request) -> str:
    return bytes(request.target).partition(b"?")[0].decode("latin-1")


def _refusal(status: HTTPStatus) -> Page:
    return Page(f"{status.phrase}\n".encode(), status=status)


def _encode(connection: h11.Connection, page: Page, *, with_body: bool) -> bytes:
    headers = [
        ("content-type", page.content_type),
        ("content-length", str(len(page.body))),
        ("cache-control", "no-store"),
        # Texts repeat what was asked for; no browser is to take them for a page.
        ("x-content-type-options", "nosniff"),
        ("connection", "close"),
        *page.headers,
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
