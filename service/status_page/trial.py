"""The form that tries a signature: a request as JSON, sent the way that all requests go."""

import asyncio
import json
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from service.data_plane import DataPlane
from service.errors import InvalidArgumentError, SignetError
from service.http.exchange import Headers, Page
from service.http.same_origin import is_own_script
from service.metrics.reading import label
from service.model_version import ServedSignature
from service.parameters import RequestParameters
from service.repository import Repository
from service.request import InferResponse, InputTensor, RequestedOutput
from service.status_page.values import to_json, to_tensor

_ANSWER_S: Final = 60.0
_MOST_BYTES: Final = 16 * 2**20


@dataclass(frozen=True, slots=True)
class _TrialRequest:
    """What the form sent; see ``service.request.InferRequest``."""

    model_name: str
    model_version: str
    signature: str
    tensors: list[InputTensor]
    id: str = ""
    serialized: None = None
    parts: None = None

    def parameters(self) -> RequestParameters:
        return RequestParameters(signature=self.signature)

    def inputs(self) -> list[InputTensor]:
        return self.tensors

    def outputs(self) -> list[RequestedOutput]:
        return []


class Trial:
    """Takes the form; see ``service.http.exchange.Form``."""

    most_bytes: Final = _MOST_BYTES
    answer_s: Final = _ANSWER_S

    def __init__(self, repository: Repository, data_plane: DataPlane) -> None:
        self._repository: Final = repository
        self._data_plane: Final = data_plane
        self._reading: Final = asyncio.Lock()

    def refusal(self, headers: Headers) -> Page | None:
        """Refuse whatever does not come from the page itself."""
        if is_own_script(headers):
            return None
        return _failure("only the status page of this server may send this", HTTPStatus.FORBIDDEN)

    async def answer(self, body: bytes) -> Page:
        """Run what the form asks for. Given up when the client waits no longer."""
        try:
            result = await self._infer(await self._read_aside(body))
        except SignetError as error:
            return _failure(str(error), HTTPStatus.BAD_REQUEST)
        outputs = [
            {
                "text": label(str(spec)),
                "shape": array.shape,
                "values": to_json(array),
                "is_cut": array.size > len(to_json(array)),
            }
            for spec, array in result.outputs
        ]
        return _page({"version": result.form.model_version, "outputs": outputs}, HTTPStatus.OK)

    async def _read_aside(self, body: bytes) -> _TrialRequest:
        """Read a body, which may take a second or so, in another thread: this one answers probes. One at a time."""
        async with self._reading:
            return await asyncio.to_thread(self._read, body)

    def _read(self, body: bytes) -> _TrialRequest:
        try:
            sent = json.loads(body)
            model, version, name, inputs = (sent[key] for key in ("model", "version", "signature", "inputs"))
        except (ValueError, RecursionError, KeyError, TypeError):
            raise InvalidArgumentError("expected JSON with model, version, signature and inputs") from None
        if not (all(isinstance(text, str) for text in (model, version, name)) and isinstance(inputs, dict)):
            raise InvalidArgumentError("expected texts for model, version and signature, and an object of inputs")
        served = self._repository.find(model, version).loaded.find_signature(name)
        return _TrialRequest(model, version, name, list(_tensors(served, inputs)))

    async def _infer(self, request: _TrialRequest) -> InferResponse:
        answered: Future[InferResponse | SignetError] = Future()
        answered.set_running_or_notify_cancel()  # so that a worker may always set it, whoever waits no longer
        ticket = self._data_plane.submit(request, time.monotonic() + _ANSWER_S, answered.set_result)
        try:
            result = await asyncio.wrap_future(answered)
        except asyncio.CancelledError:
            ticket.cancel()
            raise
        if isinstance(result, SignetError):
            raise result
        return result


def _tensors(served: ServedSignature, inputs: Mapping[str, Any]) -> list[InputTensor]:
    tensors = []
    for name, value in inputs.items():
        spec = served.signature.input(name)
        if spec is None:
            raise InvalidArgumentError(f"signature '{served.signature.name}' has no input '{name}'")
        tensors.append(to_tensor(value, spec))
    return tensors


def _failure(text: str, status: HTTPStatus) -> Page:
    return _page({"error": label(text)}, status)


def _page(facts: Mapping[str, object], status: HTTPStatus) -> Page:
    return Page(json.dumps(facts).encode(), "application/json", status)
