"""Giving freed memory back to the operating system."""

import ctypes
import gc


def release_memory() -> None:
    """Collect garbage and return free pages of the C heap.

    Without the second step the heap keeps the pages of an unloaded model, and RSS grows with every reload.
    """
    # What was frozen when it was loaded is garbage only to a collector that looks at it again.
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    gc.collect()
    if was_frozen:
        gc.freeze()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # only the GNU C library has it
        trim(0)
