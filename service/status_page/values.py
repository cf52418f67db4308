"""Tensors as the form sends and shows them: JSON values, bytes that are no text as ``{"b64": ...}``."""

import base64
import binascii
import math
from itertools import chain
from typing import Any, Final

import numpy as np

from service.datatypes import BYTES
from service.errors import InvalidArgumentError
from service.raw_tensor import from_elements
from service.request import InputTensor
from service.signature import OPEN, TensorSpec

MOST_SHOWN: Final = 1000
"""Elements of an output; a page cannot show more, and to write them would keep the thread of the port."""

_LONGEST_TEXT: Final = 1000

_MOST_AXES: Final = 64
"""NumPy's limit."""

_NUMBERS: Final = frozenset({bool, int, float})


def to_tensor(value: Any, spec: TensorSpec) -> InputTensor:
    """Return a JSON value as an input. One row may be written without the list around it.

    Raises:
        InvalidArgumentError: it is not of the input's datatype, or its lists differ in length.
    """
    array = _to_bytes(value, spec) if spec.datatype is BYTES else _to_numbers(value, spec)
    if spec.shape is not None and spec.shape[:1] == (OPEN,) and array.ndim == len(spec.shape) - 1:
        array = array[np.newaxis]
    return InputTensor(spec.name, spec.datatype.name, array.shape, array.reshape(-1))


def to_json(array: np.ndarray) -> list[Any]:
    """Return the first ``MOST_SHOWN`` elements of an output, flat: NaN and infinities as texts, long texts cut."""
    flat = array.reshape(-1)[:MOST_SHOWN]
    if array.dtype == BYTES.dtype:
        return [_bytes_to_json(element) for element in flat]
    if flat.dtype.kind in "biu":
        return list(flat.tolist())
    return [value if math.isfinite(value) else str(value) for value in flat.astype(np.float64).tolist()]


def _to_numbers(value: Any, spec: TensorSpec) -> np.ndarray:
    shape, elements = _flatten(value, spec)
    # NumPy itself would take a text among them, and make every element as long as that.
    if not _NUMBERS.issuperset(map(type, elements)):
        raise InvalidArgumentError(f"input '{spec}' takes numbers; there is something else in it")
    array = np.array(elements)
    if array.dtype.kind not in "biuf":
        raise InvalidArgumentError(f"input '{spec}' takes numbers; there is one that no datatype can hold")
    with np.errstate(all="ignore"):
        cast = array.astype(spec.datatype.dtype)
    if cast.dtype.kind in "biu" and not np.array_equal(cast, array):
        raise InvalidArgumentError(f"input '{spec}': there are values that are no {spec.datatype.name}")
    return cast.reshape(shape)


def _to_bytes(value: Any, spec: TensorSpec) -> np.ndarray:
    shape, elements = _flatten(value, spec)
    return from_elements([_one_bytes(element, spec) for element in elements], shape)


def _flatten(value: Any, spec: TensorSpec) -> tuple[tuple[int, ...], list[Any]]:
    """Return the shape of nested lists and what is in the innermost ones."""
    shape: list[int] = []
    elements = [value]
    while (kinds := set(map(type, elements))) == {list}:
        lengths = set(map(len, elements))
        if len(lengths) > 1 or len(shape) == _MOST_AXES:
            raise InvalidArgumentError(f"input '{spec}': the lists in it differ in length, or are too deep")
        shape.append(lengths.pop())
        elements = list(chain.from_iterable(elements))
    if list in kinds:
        raise InvalidArgumentError(f"input '{spec}': the lists in it differ in length")
    return tuple(shape), elements


def _one_bytes(element: Any, spec: TensorSpec) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8", "surrogatepass")
    if isinstance(element, dict) and set(element) == {"b64"}:
        try:
            return base64.b64decode(element["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise InvalidArgumentError(f"input '{spec}': a b64 value is not base64") from None
    raise InvalidArgumentError(f"input '{spec}' takes texts or {{\"b64\": ...}}; there is something else in it")


def _bytes_to_json(element: bytes) -> str | dict[str, str]:
    try:
        text = element.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(element[:_LONGEST_TEXT]).decode()}
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."
