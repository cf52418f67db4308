"""Where a server is and what it wants to see of callers: TLS from the address, files and a token from the environment.

A secret stands in no option, because every user of the machine can read command lines.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
from tritonclient.grpc import InferenceServerClient, InferenceServerClientPlugin
from tritonclient.grpc.aio import InferenceServerClient as AsyncClient

_SECURE: Final = "grpcs://"
_TOKEN: Final = "SIGNET_TOKEN"  # noqa: S105 - the variable's name
_FILES: Final = {
    "root_certificates": "SIGNET_ROOT_CERT",
    "private_key": "SIGNET_CLIENT_KEY",
    "certificate_chain": "SIGNET_CLIENT_CERT",
}


def plain(url: str) -> str:
    """Return the address without what says how to speak."""
    return url.removeprefix(_SECURE)


def open_client(url: str) -> InferenceServerClient:
    """Return a client for the server at ``url``.

    Raises:
        OSError: a file that the environment names cannot be read.
    """
    return _equipped(InferenceServerClient(plain(url), **_tls(url)))


def open_async_client(url: str) -> AsyncClient:
    """Return such a client for coroutines; see ``open_client``."""
    return _equipped(AsyncClient(plain(url), **_tls(url)))


def open_channel(url: str) -> grpc.Channel:
    """Return a channel to the same server; see ``open_client``."""
    if url.startswith(_SECURE):
        contents = {name: Path(path).read_bytes() for name, path in _files().items()}
        channel = grpc.secure_channel(plain(url), grpc.ssl_channel_credentials(**contents))
    else:
        channel = grpc.insecure_channel(url)
    return grpc.intercept_channel(channel, _Bearer()) if _TOKEN in os.environ else channel


def _tls(url: str) -> dict[str, Any]:
    return {"ssl": True, **_files()} if url.startswith(_SECURE) else {}


def _files() -> dict[str, str]:
    """Return the paths that the environment names; each can be read, since the stock client fails badly otherwise."""
    named = {name: os.environ[variable] for name, variable in _FILES.items() if variable in os.environ}
    for path in named.values():
        Path(path).read_bytes()
    return named


def _authorization() -> tuple[str, str]:
    return "authorization", f"Bearer {os.environ[_TOKEN]}"


def _equipped(client: Any) -> Any:
    if _TOKEN in os.environ:
        client.register_plugin(_BearerPlugin())
    return client


class _BearerPlugin(InferenceServerClientPlugin):  # type: ignore[misc]  # tritonclient publishes no types
    """Adds the token to every call of a client."""

    def __call__(self, request: Any) -> None:
        """Take the headers of a call."""
        name, value = _authorization()
        request.headers[name] = value


class _Fields(NamedTuple):
    method: str
    timeout: float | None
    metadata: Sequence[tuple[str, str]]
    credentials: Any
    wait_for_ready: bool | None
    compression: Any


class _Details(_Fields, grpc.ClientCallDetails):  # type: ignore[misc]  # grpc publishes no types
    """What a call is made with."""


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.StreamStreamClientInterceptor):  # type: ignore[misc]  # likewise
    """Adds the token to every call of a channel."""

    def intercept_unary_unary(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        return continuation(_with_token(details), request)

    def intercept_stream_stream(self, continuation: Callable[..., Any], details: Any, requests: Any) -> Any:
        return continuation(_with_token(details), requests)


def _with_token(details: Any) -> _Details:
    metadata = (*(details.metadata or ()), _authorization())
    return _Details(
        details.method,
        details.timeout,
        metadata,
        details.credentials,
        details.wait_for_ready,
        details.compression,
    )
