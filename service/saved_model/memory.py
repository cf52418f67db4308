"""When freed memory goes back to the operating system, and when Python's garbage collector may stop requests.

A collection holds the interpreter, so nothing is answered meanwhile. It takes 200 ms for the 380,000 objects that
TensorFlow makes when it starts, and 1 ms for those of a loaded model. So the former are frozen once, when there is no
model yet, and the latter never: what a model leaves behind is found by a collection that looks at models alone.
"""

import contextlib
import ctypes
import gc
import os
from collections.abc import Iterator
from typing import Final

# Of the GNU C library's mallopt().
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3

_MOST_KEPT_BYTES: Final = 256 << 20
_LARGEST_BLOCK_BYTES: Final = 32 << 20
"""The most that the library takes for the second threshold."""


def freeze_objects() -> None:
    """Spare the collector what is there now: it stays for the life of the process, and need not be looked at again."""
    gc.collect()
    gc.freeze()


@contextlib.contextmanager
def collections_paused() -> Iterator[None]:
    """Begin no collection by the number of new objects; for code that makes many of them, and hardly any garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def keep_freed_memory() -> None:
    """Let the C heap keep up to 256 MiB of what was freed, so that the next requests find it there.

    Otherwise it returns what a request of megabytes frees, and the kernel clears new pages for the next one: with four
    callers of 15 MB a third of the CPU time. Whoever set the library's own variables is left alone.
    """
    chosen = any(name.startswith("MALLOC_") for name in os.environ)
    if chosen or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:  # only the GNU C library has it
        set_option(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES)


def release_memory() -> None:
    """Collect garbage and return free pages of the C heap.

    Without the second step the heap keeps the pages of an unloaded model, and RSS grows with every reload.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
