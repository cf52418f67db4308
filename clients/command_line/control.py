"""``signet load`` and ``signet unload``: which models a server in mode explicit serves."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final

import typer
from tritonclient.utils import InferenceServerException

from clients.command_line.connection import DEFAULT_URL, AsJson, Failure, Url, connect, text_of

_LOAD_TIMEOUT_S: Final = 3600.0

Name = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]


def load(model: Name, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Load a model, or load it anew.

    Ends when it is ready. The server must run with --model-control-mode explicit.
    """
    with connect(url) as client, _mode_told():
        client.load_model(model, client_timeout=_LOAD_TIMEOUT_S)
        versions = sorted(client.get_model_metadata(model).versions, key=int)
    _tell({"model": model, "versions": versions}, f"{model}: ready, version {', '.join(versions)}", as_json=as_json)


def unload(model: Name, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Unload a model.

    Requests that were taken are answered. The server must run with --model-control-mode explicit.
    """
    with connect(url) as client, _mode_told():
        client.unload_model(model)
    _tell({"model": model}, f"{model}: asked to unload", as_json=as_json)


@contextmanager
def _mode_told() -> Iterator[None]:
    """Say how a server is started whose models can be loaded; its own refusal does not."""
    try:
        yield
    except InferenceServerException as error:
        if "explicit model load" not in str(error.message()):
            raise
        raise Failure(f"{text_of(error)}; start the server with --model-control-mode explicit") from None


def _tell(facts: dict[str, object], text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(facts) if as_json else text)
