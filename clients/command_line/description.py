"""What a server says of its models: their signatures, and what each takes and gives."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clients.command_line.connection import Failure, text_of
from clients.command_line.tensors import TensorSpec

_SIGNATURES: Final = "signatures"


@dataclass(frozen=True)
class Target:
    """What a request is for.

    Attributes:
        model: the model's name.
        signature: as named by the caller; None leaves it to the server.
        inputs: what it takes.
        outputs: what it gives.
    """

    model: str
    signature: str | None
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]

    @property
    def parameters(self) -> dict[str, str]:
        """The request's parameters, which name the signature."""
        return {"signature": self.signature} if self.signature else {}

    def __str__(self) -> str:
        takes = ", ".join(map(str, self.inputs)) or "no inputs"
        return f"{f'signature {self.signature!r}' if self.signature else f'model {self.model!r}'} takes {takes}"


def describe(client: InferenceServerClient, model: str, signature: str | None) -> Target:
    """Ask what a signature takes and gives.

    Raises:
        Failure: there is no such model or signature, or none is named and there is no default; the text lists what
            there is.
    """
    names = _known_names(client, model)
    if signature and names and signature not in names:
        raise Failure(f"model '{model}' has no signature '{signature}'; it has: {', '.join(names)}")
    metadata = client.get_model_metadata(f"{model}:{signature}" if signature else model)
    if not metadata.outputs:
        raise Failure(f"model '{model}' has no default signature; say --signature NAME, one of: {', '.join(names)}")
    return Target(model, signature, _specs(metadata.inputs), _specs(metadata.outputs))


def _known_names(client: InferenceServerClient, model: str) -> list[str]:
    try:
        return signature_names(client, model)
    except InferenceServerException as error:
        if error.status() != "StatusCode.NOT_FOUND":
            raise
        models = sorted({entry.name for entry in client.get_model_repository_index().models})
        raise Failure(f"{text_of(error)}; there are: {', '.join(models) or 'no models'}") from None


def signature_names(client: InferenceServerClient, model: str) -> list[str]:
    """Return the model's signatures in order of their names; none where a server or model has a nameless one only."""
    parameters = client.get_model_config(model).config.parameters
    return sorted(json.loads(parameters[_SIGNATURES].string_value)) if _SIGNATURES in parameters else []


def _specs(tensors: Any) -> list[TensorSpec]:
    return [TensorSpec(tensor.name, tensor.datatype, tuple(tensor.shape)) for tensor in tensors]
