"""A connection to the server, and how a command that talks to it fails."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clients.command_line.address import open_client

REFUSED: Final = 1
"""Exit code: the server refused or failed what was asked, or what was given does not make a request."""

UNREACHABLE: Final = 3
"""Exit code: no server answers at the address. (2 is a wrong command line.)"""

Url = Annotated[
    str,
    typer.Option(
        "--url",
        metavar="HOST:PORT",
        envvar="SIGNET_URL",
        help="The server, also unix:PATH, or grpcs://HOST:PORT with TLS.",
    ),
]
DEFAULT_URL: Final = "127.0.0.1:8001"

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs in place of text for people.")]

_LOOK_TIMEOUT_S: Final = 5.0
_NO_ID: Final = "[request id: <id_unknown>] "
_NO_GRPC: Final = re.compile("http1|parsing HTTP/2", re.IGNORECASE)
_AWAY: Final = {"StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"}


class Failure(typer.Exit):
    """Ends the program with one line on standard error."""

    def __init__(self, text: str, code: int = REFUSED) -> None:
        typer.echo(f"signet: {text}", err=True)
        super().__init__(code)


@contextmanager
def connect(url: str) -> Iterator[InferenceServerClient]:
    """Give a client whose server answers; what a call of the block is refused with ends the program.

    Raises:
        Failure: no server answers at ``url``, or a call in the block failed.
    """
    try:
        opened = open_client(url)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}") from None
    with opened as client:
        try:
            client.is_server_live(client_timeout=_LOOK_TIMEOUT_S)
        except InferenceServerException as error:
            raise unreachable(url, error) from None
        try:
            yield client
        except InferenceServerException as error:
            raise Failure(text_of(error)) from None


def unreachable(url: str, error: InferenceServerException) -> Failure:
    """Return the failure of a first call."""
    if _NO_GRPC.search(str(error.message())):
        return Failure(f"what listens at {url} does not speak gRPC; `signet serve` does at port 8001", UNREACHABLE)
    if error.status() in _AWAY:
        return Failure(
            f"no server answers at {url}; start one with `signet serve`, or say --url HOST:PORT", UNREACHABLE
        )
    return Failure(f"what listens at {url} does not speak the protocol: {text_of(error)}", UNREACHABLE)


def text_of(error: InferenceServerException) -> str:
    """Return status and text of a refusal in one line, such as ``NOT_FOUND: Request for unknown model ...``."""
    status = (error.status() or "").removeprefix("StatusCode.")
    text = " ".join(str(error.message()).replace(_NO_ID, "").split())
    return f"{status}: {text}" if status else text
