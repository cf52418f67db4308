"""Checks what a request sends against the signature that it asks for, and turns it into arrays."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from service import raw_tensor
from service.datatypes import BYTES
from service.errors import InvalidArgumentError
from service.model_version import ServedSignature
from service.request import InputTensor, name_request
from service.signature import Signature, TensorSpec

# A tensor without elements costs a caller nothing to send, but the model may make outputs of its other dimensions.
_MAX_EMPTY_SIZE: Final = 2**24
# NumPy's limit. Multiplying the sizes of a hundred thousand axes takes minutes.
_MAX_AXES: Final = 64


@dataclass(frozen=True, slots=True)
class Place:
    """What a request asked for, to be named in its errors.

    Attributes:
        model: the model's name as sent.
        version: the version that would serve it.
        signature: the signature that would run.
        request_id: the request's id.
    """

    model: str
    version: int
    signature: str
    request_id: str

    def invalid(self, text: str) -> InvalidArgumentError:
        """Return an error about this request."""
        return InvalidArgumentError(f"{name_request(self.request_id)} {text} ({self})")

    def __str__(self) -> str:
        return f"model '{self.model}' version {self.version}, signature '{self.signature}'"


def check_outputs(place: Place, signature: Signature, names: list[str]) -> tuple[TensorSpec, ...]:
    """Return the wanted outputs in the signature's order; no names mean all.

    Raises:
        InvalidArgumentError: a name is not an output of the signature.
    """
    if not names:
        return signature.outputs
    for name in names:
        if signature.output(name) is None:
            raise place.invalid(
                f"unexpected inference output '{name}' for model '{place.model}'; available: "
                + ", ".join(str(spec) for spec in signature.outputs)
            )
    return tuple(spec for spec in signature.outputs if spec.name in names)


def check_inputs(
    place: Place, served: ServedSignature, tensors: list[InputTensor]
) -> tuple[dict[str, np.ndarray], int]:
    """Check names, shapes, datatypes and sizes.

    Args:
        place: what to name in errors.
        served: the signature asked for.
        tensors: the inputs as sent, each name once.

    Returns:
        An array for each input that was sent, in the signature's order, and the number of rows; 1 when the signature
        has no batch dimension.

    Raises:
        InvalidArgumentError: the first fault found, in Triton's order: number of inputs, names, batch dimension, then
            datatype, shape and data of each.
    """
    signature = served.signature
    _check_names(place, signature, tensors)
    rows = _rows(place, served, tensors) if served.max_batch_size else 1
    by_name = {tensor.name: tensor for tensor in tensors}
    arrays = {spec.name: _array(place, spec, by_name[spec.name]) for spec in signature.inputs if spec.name in by_name}
    if rows > served.max_batch_size > 0 and not any(array.size for array in arrays.values()):
        raise place.invalid(f"{rows} rows without elements; at most {served.max_batch_size} are allowed")
    return arrays, rows


def _check_names(place: Place, signature: Signature, tensors: list[InputTensor]) -> None:
    got = {tensor.name for tensor in tensors}
    missing = [spec for spec in signature.inputs if spec.name not in got and not spec.optional]
    unknown = [name for name in sorted(got) if signature.input(name) is None]
    if not missing and not unknown:
        return
    expected = ", ".join(str(spec) for spec in signature.inputs) or "none"
    faults = ""
    if missing:
        faults += f", but missing required input(s) {_names(spec.name for spec in missing)}"
    if unknown:
        faults += f", unexpected inference input(s) {_names(unknown)}"
    raise place.invalid(
        f"expected {len(signature.inputs)} inputs but got {len(tensors)} inputs for model '{place.model}'. "
        f"Got input(s) {_names(tensor.name for tensor in tensors)}{faults}. Please provide all required input(s). "
        f"The signature takes: {expected}"
    )


def _names(names: Iterable[str]) -> str:
    return f"[{','.join(map(repr, names))}]"


def _rows(place: Place, served: ServedSignature, tensors: list[InputTensor]) -> int:
    """Return the size of the batch dimension, which all inputs share."""
    for tensor in tensors:
        if not tensor.shape:
            raise place.invalid(
                f"input '{tensor.name}' has no shape but model requires batch dimension for '{place.model}'"
            )
    rows = tensors[0].shape[0]
    for tensor in tensors:
        if tensor.shape[0] != rows:
            raise place.invalid(
                f"input '{tensor.name}' batch size does not match other inputs for '{place.model}': "
                f"{tensor.shape[0]} rows, but '{tensors[0].name}' has {rows}"
            )
    if rows > served.max_batch_size and not served.cuts_oversize:
        raise place.invalid(
            f"inference request batch-size must be <= {served.max_batch_size} for '{place.model}', got {rows} rows"
        )
    return rows


def _array(place: Place, spec: TensorSpec, tensor: InputTensor) -> np.ndarray:
    if tensor.datatype != spec.datatype.name:
        raise place.invalid(
            f"inference input '{spec.name}' data-type is '{tensor.datatype}', but model '{place.model}' expects "
            f"'{spec.datatype.name}'"
        )
    _check_shape(place, spec, tensor.shape)
    try:
        return raw_tensor.decode(spec.datatype, tensor.shape, tensor.data)
    except InvalidArgumentError as error:
        what = "wrong string elements" if spec.datatype is BYTES else "input byte size mismatch"
        raise place.invalid(
            f"{what} for input '{spec.name}' for model '{place.model}' with datatype {spec.datatype.name} and shape "
            f"{_text(tensor.shape)}. {error}"
        ) from error


def _check_shape(place: Place, spec: TensorSpec, shape: tuple[int, ...]) -> None:
    if len(shape) > _MAX_AXES:
        raise place.invalid(
            f"unexpected shape for input '{spec.name}' for model '{place.model}': {len(shape)} dimensions; at most "
            f"{_MAX_AXES} are allowed"
        )
    if any(size < 0 for size in shape):
        raise place.invalid(
            f"All input dimensions should be specified for input '{spec.name}' for model '{place.model}', "
            f"got {_text(shape)}"
        )
    if not spec.accepts(shape):
        raise place.invalid(
            f"unexpected shape for input '{spec.name}' for model '{place.model}'. Expected {_text(spec.shape or ())}, "
            f"got {_text(shape)}"
        )
    if 0 in shape and raw_tensor.element_count(tuple(size for size in shape if size)) > _MAX_EMPTY_SIZE:
        raise place.invalid(f"input '{spec.name}' has no elements, but a shape as large as {_text(shape)}")


def _text(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"
