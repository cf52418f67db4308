"""Giving freed memory back to the operating system."""

import ctypes
import gc


def release_memory() -> None:
    """Collect garbage and return free pages of the C heap.

    Without the second step the heap keeps the pages of an unloaded model, and RSS grows with every reload.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # only the GNU C library has it
        trim(0)
