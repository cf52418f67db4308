"""``signet load`` and ``signet unload``: which models a server in mode explicit serves."""

import json
from typing import Annotated, Final

import typer

from clients.command_line.connection import DEFAULT_URL, AsJson, Url, connect

_LOAD_TIMEOUT_S: Final = 3600.0

Name = Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")]


def load(model: Name, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Load a model, or load it anew.

    Ends when it is ready. The server must run with --model-control-mode explicit.
    """
    with connect(url) as client:
        client.load_model(model, client_timeout=_LOAD_TIMEOUT_S)
        versions = sorted(client.get_model_metadata(model).versions, key=int)
    _tell({"model": model, "versions": versions}, f"{model}: ready, version {', '.join(versions)}", as_json=as_json)


def unload(model: Name, *, url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Unload a model.

    Requests that were taken are answered. The server must run with --model-control-mode explicit.
    """
    with connect(url) as client:
        client.unload_model(model)
    _tell({"model": model}, f"{model}: asked to unload", as_json=as_json)


def _tell(facts: dict[str, object], text: str, *, as_json: bool) -> None:
    typer.echo(json.dumps(facts) if as_json else text)
