"""When freed memory goes back to the operating system, and when Python's garbage collector may stop requests.

A collection holds the interpreter, so nothing is answered meanwhile. It takes 200 ms for the 380,000 objects that
TensorFlow makes when it starts, and 1 ms for those of a loaded model. So the former are frozen once, when there is no
model yet, and the latter never: what a model leaves behind is found by a collection that looks at models alone.
"""

import contextlib
import gc
from collections.abc import Iterator

from service.glibc import give_back


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


def release_memory() -> None:
    """Collect garbage and return free pages of the C heap.

    Without the second step the heap keeps the pages of an unloaded model, and RSS grows with every reload.
    """
    gc.collect()
    give_back()
