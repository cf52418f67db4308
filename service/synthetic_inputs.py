"""Inputs that nobody sent: for runs before the first request."""

from collections.abc import Sequence

import numpy as np

from service.datatypes import BYTES, Datatype


def zeros(datatype: Datatype, shape: Sequence[int]) -> np.ndarray:
    """Return zeros, or for BYTES empty elements."""
    if datatype is BYTES:
        return np.full(shape, b"", BYTES.dtype)
    return np.zeros(shape, datatype.dtype)


def random_values(datatype: Datatype, shape: Sequence[int], random: np.random.Generator) -> np.ndarray:
    """Return random values: floats from 0 to 1, and small integers, since they may be positions in a table.

    Args:
        datatype: any but BYTES, whose meaning only the model knows.
        shape: of the result.
        random: where they are drawn.
    """
    if datatype.name == "BOOL":
        return random.integers(0, 2, shape).astype(bool)
    if datatype.dtype.kind in "iu":
        return random.integers(0, 4, shape).astype(datatype.dtype)
    return random.random(shape).astype(datatype.dtype)
