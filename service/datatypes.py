"""The datatypes of the protocol: the wire's word, the configuration's word and NumPy's dtype, in one table."""

from dataclasses import dataclass
from typing import Final

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Datatype:
    """One datatype of the protocol.

    Attributes:
        name: the word of the wire, such as ``FP32``.
        config_name: the word of ModelConfig, such as ``TYPE_FP32``.
        dtype: NumPy's dtype; object for BYTES, whose elements are ``bytes``.
        itemsize: bytes per element on the wire; 0 for BYTES, whose elements differ in length.
    """

    name: str
    config_name: str
    dtype: np.dtype
    itemsize: int


BYTES: Final = Datatype("BYTES", "TYPE_STRING", np.dtype(object), 0)

_FIXED: Final[dict[str, type]] = {
    "BOOL": np.bool_,
    "UINT8": np.uint8,
    "UINT16": np.uint16,
    "UINT32": np.uint32,
    "UINT64": np.uint64,
    "INT8": np.int8,
    "INT16": np.int16,
    "INT32": np.int32,
    "INT64": np.int64,
    "FP16": np.float16,
    "FP32": np.float32,
    "FP64": np.float64,
    "BF16": ml_dtypes.bfloat16,
}

DATATYPES: Final[dict[str, Datatype]] = {
    name: Datatype(name, f"TYPE_{name}", np.dtype(scalar), np.dtype(scalar).itemsize) for name, scalar in _FIXED.items()
} | {"BYTES": BYTES}

_BY_DTYPE: Final = {datatype.dtype: datatype for datatype in DATATYPES.values()}


def from_dtype(dtype: np.dtype) -> Datatype:
    """Return the datatype whose arrays have this dtype.

    Raises:
        KeyError: the protocol has no such datatype.
    """
    return _BY_DTYPE[dtype]
