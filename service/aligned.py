"""Memory that TensorFlow takes as it is. It copies an array that does not begin at a multiple of 64 bytes.

Python's and NumPy's own memory begins at one of 16, and tensors lie anywhere in a message. So large ones are brought
into such memory on a copy that is made anyway, or in place of TensorFlow's: NumPy copies without the interpreter's lock
and asks the kernel for huge pages, which makes the first touch of new memory cheap.

Source: TensorFlow, TF_NewTensor in tf_tensor.cc, on EIGEN_MAX_ALIGN_BYTES.
"""

from typing import Final

import numpy as np

_ALIGNMENT: Final = 64


def allocate(size: int) -> np.ndarray:
    """Return ``size`` bytes of new memory that begins at a multiple of 64: an array of UINT8 with any values."""
    memory = np.empty(size + _ALIGNMENT - 1, np.uint8)
    start = -_address(memory) % _ALIGNMENT
    return memory[start : start + size]


def is_aligned(array: np.ndarray) -> bool:
    """Whether an array begins at a multiple of 64 bytes and lies in one piece, in C's order."""
    return array.flags.c_contiguous and _address(array) % _ALIGNMENT == 0


def copy(array: np.ndarray) -> np.ndarray:
    """Return a copy of an array of numbers that begins at a multiple of 64 bytes."""
    copied = allocate(array.nbytes).view(array.dtype).reshape(array.shape)
    np.copyto(copied, array)
    return copied


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
