"""One inference request and its answer, as the data plane sees them: no message types, no transport."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from service.datatypes import BYTES
from service.errors import SignetError
from service.parameters import RequestParameters
from service.shared_memory import Window
from service.signature import TensorSpec
from service.wire import RequestParts

_STRING_BYTES: Final = 48
"""What a string takes beside its bytes, as an object and a pointer to it; on the wire it takes 4."""


@dataclass(frozen=True, slots=True)
class InputTensor:
    """One input as the caller sent it, not yet checked against a signature.

    Attributes:
        name: the input's name.
        datatype: the datatype's word as the caller wrote it.
        shape: the shape as the caller wrote it; dimensions may be negative or far too large.
        data: the raw bytes of the wire, or a view of them, where they lie in shared memory, or a flat array when the
            caller used a typed field.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes | memoryview | Window | np.ndarray

    @property
    def nbytes(self) -> int:
        """How much memory the data take, in bytes, once they are an array; for tensors that were checked."""
        if not isinstance(self.data, np.ndarray):
            return len(self.data) + self.object_nbytes
        if self.datatype == BYTES.name:
            return sum(map(len, self.data.tolist())) + self.object_nbytes
        return self.data.nbytes

    @property
    def object_nbytes(self) -> int:
        """How much of it strings take beside their bytes."""
        return _STRING_BYTES * math.prod(self.shape) if self.datatype == BYTES.name else 0


@dataclass(frozen=True, slots=True)
class RequestedOutput:
    """One output as the caller asked for it.

    Attributes:
        name: the output's name.
        classes: how many of its largest values to tell in its place; None means the tensor itself.
    """

    name: str
    classes: int | None = None


def name_request(request_id: str) -> str:
    """Return how errors name a request, as Triton does: they begin with it."""
    return f"[request id: {request_id or '<id_unknown>'}]"


class InferRequest(Protocol):
    """What the data plane reads of a request, in the order in which faults must be reported.

    The parts are methods because reading them can fail, and the model is looked up before any of them is read.
    """

    @property
    def model_name(self) -> str:
        """The model's name as sent; it may carry a signature (``MODEL:SIGNATURE``)."""
        ...

    @property
    def model_version(self) -> str:
        """The version as sent; empty means the latest."""
        ...

    @property
    def id(self) -> str:
        """The caller's own name for the request."""
        ...

    @property
    def serialized(self) -> bytes | None:
        """The whole request as it came, None where it came as a message object."""
        ...

    @property
    def parts(self) -> RequestParts | None:
        """The serialized request in parts: requests with equal headers ask for the same.

        None where that is not known or not so; reading the other parts may show it.
        """
        ...

    def parameters(self) -> RequestParameters:
        """Read the request's parameters. Raises InvalidArgumentError or UnimplementedError."""
        ...

    def inputs(self) -> list[InputTensor]:
        """Read the inputs, each name once. Raises InvalidArgumentError or NotFoundError."""
        ...

    def outputs(self) -> list[RequestedOutput]:
        """Read the wanted outputs, each once; none means all. Raises InvalidArgumentError or NotFoundError."""
        ...


@dataclass(slots=True, eq=False)
class AnswerForm:
    """What answers have in common but their ids and their data.

    Attributes:
        model_name: the name that the requests used.
        model_version: the version that answers, in decimal.
        signature: the signature that answers, where the requests name one, else None.
        outputs: the wanted outputs, in the signature's order.
        heads: for who encodes answers, to keep what it made of this form, by the shapes of the data.
    """

    model_name: str
    model_version: str
    signature: str | None
    outputs: Sequence[TensorSpec]
    heads: dict[Hashable, Any] = field(default_factory=dict, repr=False)


@dataclass(slots=True, eq=False)
class InferResponse:
    """The answer to one request.

    Attributes:
        form: what it has in common with others.
        id: the request's id.
        arrays: one for each output of the form.
    """

    form: AnswerForm
    id: str
    arrays: Sequence[np.ndarray]

    @property
    def outputs(self) -> Iterable[tuple[TensorSpec, np.ndarray]]:
        """The wanted outputs in the signature's order, each with its array."""
        return zip(self.form.outputs, self.arrays, strict=True)


Done = Callable[[InferResponse | SignetError], None]
"""Receives the answer or the failure of one request, exactly once, from any thread."""


class Ticket(Protocol):
    """A request that was sent to the data plane."""

    @property
    def was_refused(self) -> bool:
        """Whether it was answered at once with a failure, so that nothing of it was run."""
        ...

    def cancel(self) -> None:
        """Give the request up: if it still waits, it is not run. Harmless once it is answered."""
        ...
