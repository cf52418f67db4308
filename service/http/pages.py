"""What the HTTP port has to say: health under KServe's paths, and metrics."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import unquote

from service.errors import InvalidArgumentError
from service.http.exchange import Page, Request


@dataclass(frozen=True, slots=True)
class ServerPages:
    """The pages of a server.

    Attributes:
        is_live: whether the process and its workers are alive.
        is_ready: whether the server takes requests.
        is_model_ready: whether a model, by its name and a version or "", would be served; raises InvalidArgumentError.
        metrics: makes the text of the metrics and tells its type, from the header Accept; None means that there are
            none.
    """

    is_live: Callable[[], bool]
    is_ready: Callable[[], bool]
    is_model_ready: Callable[[str, str], bool]
    metrics: Callable[[str], tuple[bytes, str]] | None

    def __call__(self, request: Request) -> Page:
        """Answer a request."""
        path = request.target.partition("?")[0]
        match [unquote(part) for part in path.split("/")[1:]]:
            case ["metrics"] if self.metrics is not None:
                return Page(*self.metrics(request.accept))
            case ["v2", "health", "live"]:
                return _state("live", holds=self.is_live())
            case ["v2", "health", "ready"]:
                return _state("ready", holds=self.is_ready())
            case ["v2", "models", name, "ready"]:
                return self._model(name, "")
            case ["v2", "models", name, "versions", version, "ready"]:
                return self._model(name, version)
        return Page(b"Not Found\n", status=HTTPStatus.NOT_FOUND)

    def _model(self, name: str, version: str) -> Page:
        try:
            return _state("ready", holds=self.is_model_ready(name, version))
        except InvalidArgumentError as error:
            return Page(f"{error}\n".encode(), status=HTTPStatus.BAD_REQUEST)


def _state(word: str, *, holds: bool) -> Page:
    """Say it to people and, by the status, to probes."""
    status = HTTPStatus.OK if holds else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(json.dumps({word: holds}).encode(), "application/json", status)
