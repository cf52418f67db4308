"""The classification extension: an output told as its largest values with their indices and labels."""

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from service.datatypes import BYTES, from_dtype
from service.errors import InvalidArgumentError
from service.parameters import Parameter

_KEY: Final = "classification"
# A class takes some hundred bytes and a microsecond or so; Triton has the same limit.
_MAX_ELEMENTS: Final = 1_000_000
_INTEGERS: Final = "iu"
_FLOATS: Final = (np.dtype(np.float32), np.dtype(np.float64))


def read_class_count(parameters: Iterable[Parameter]) -> int | None:
    """Return how many classes an output's parameters ask for, or None when they ask for the tensor itself.

    Raises:
        InvalidArgumentError: the number has the wrong type, or is not positive.
    """
    for key, kind, value in parameters:
        if key != _KEY:
            continue
        if kind != "int64_param":
            raise InvalidArgumentError(f"invalid value type for '{_KEY}' parameter, expected int64_param")
        count = int(value or 0)
        if count <= 0:
            # Triton's text; it accepts no 0 either.
            raise InvalidArgumentError(f"invalid value for '{_KEY}' parameter, expected >= 0")
        return count
    return None


def classify(array: np.ndarray, count: int, labels: Sequence[bytes] = (), *, batched: bool) -> np.ndarray:
    """Return the largest values of each row, largest first, as texts ``VALUE:INDEX`` or ``VALUE:INDEX:LABEL``.

    Equal values come in the order of their indices. What is not a number comes last.

    Args:
        array: an output, integers or floats of 32 or 64 bits.
        count: how many values are wanted of each row, at least 1; a row with fewer gives all that it has.
        labels: of the indices from 0 on; an index beyond them, or with an empty one, has no label.
        batched: whether axis 0 counts rows. Without it, the whole array is one row.

    Returns:
        An object array of ``bytes`` of shape [rows, classes], or [classes] without a batch dimension.

    Raises:
        InvalidArgumentError: the datatype has no classes, or there are too many elements to sort or to write.
    """
    _check_datatype(array)
    shape = array.shape if batched else (1, *array.shape)
    rows, elements = shape[0], math.prod(shape[1:])
    classes = min(count, elements)
    if max(elements, rows * classes) > _MAX_ELEMENTS:
        raise InvalidArgumentError(
            f"class result not available for output of shape {list(array.shape)}: at most {_MAX_ELEMENTS} elements can "
            f"be sorted and at most as many classes told, but there are {elements} and {rows * classes}"
        )
    texts = [
        text for row in array.reshape(rows, elements) for text in _texts(row, _largest_first(row)[:classes], labels)
    ]
    told = np.empty(rows * classes, BYTES.dtype)
    told[:] = texts
    return told.reshape((rows, classes) if batched else (classes,))


def _check_datatype(array: np.ndarray) -> None:
    if array.dtype.kind not in _INTEGERS and array.dtype not in _FLOATS:
        name = from_dtype(array.dtype).name
        raise InvalidArgumentError(f"class result not available for output due to unsupported type '{name}'")


def _largest_first(row: np.ndarray) -> np.ndarray:
    # Both turn the order around without overflow: the complement for all integers, the sign for all floats.
    falling = ~row if row.dtype.kind in _INTEGERS else -row
    return np.argsort(falling, kind="stable")


def _texts(row: np.ndarray, indices: np.ndarray, labels: Sequence[bytes]) -> Iterable[bytes]:
    form = b"%d:%d" if row.dtype.kind in _INTEGERS else b"%f:%d"
    for index, value in zip(indices.tolist(), row[indices].tolist(), strict=True):
        label = labels[index] if index < len(labels) else b""
        yield form % (value, index) + (b":" + label if label else b"")
