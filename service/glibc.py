"""The heap of the GNU C library, as far as it can be told what to do. Other libraries are left alone.

By itself glibc has up to 8 arenas per core, each of which holds what it freed, blocks of up to 32 MiB too. It returns
them from the end of an arena, and from inside when it is told to (``malloc_trim``).
"""

import ctypes
import os
import resource
from pathlib import Path
from typing import Final, Self

# Options of mallopt().
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3
_ARENA_MAX: Final = -8

_MOST_KEPT_BYTES: Final = 256 << 20
_LARGEST_BLOCK_BYTES: Final = 32 << 20
"""The most that the library takes for the second threshold."""

_THREADS_PER_ARENA: Final = 4

_STATM: Final = Path("/proc/self/statm")


def limit_arenas(threads: int) -> None:
    """Let threads share arenas; to be called before the first of them starts.

    ``malloc_trim`` gives back the free end of the first arena alone; up to 64 MiB stay in each of the others. On two
    cores one arena costs no more CPU time than 16 do, with requests small and large and with EfficientNet-B0.

    Args:
        threads: that work at a time.
    """
    _set(_ARENA_MAX, -(-threads // _THREADS_PER_ARENA))


def keep_freed_memory() -> None:
    """Let the C heap keep up to 256 MiB of what was freed, so that the next requests find it there.

    Otherwise it returns what a request of megabytes frees, and the kernel clears new pages for the next one: with four
    callers of 15 MB a third of the CPU time.
    """
    _set(_TRIM_THRESHOLD, _MOST_KEPT_BYTES)
    _set(_MMAP_THRESHOLD, _LARGEST_BLOCK_BYTES)


def give_back() -> None:
    """Give free pages of the heap back to the system."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of mallinfo(3)."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    )


class GlibcHeap:
    """What of the heap is free. Where another allocator was preloaded it stays empty: there is nothing to do."""

    def __init__(self, library: ctypes.CDLL) -> None:
        """Take the functions from the C library.

        Raises:
            AttributeError: it has not got them: it is another one, or a glibc before 2.33.
        """
        self._info: Final = library.mallinfo2
        self._info.restype = _Info
        self._trim: Final = library.malloc_trim

    @classmethod
    def here(cls) -> Self | None:
        """Return that of this process, or None where it has none."""
        try:
            return cls(ctypes.CDLL(None))
        except AttributeError:
            return None

    def spare(self) -> int:
        """Return what is free, with stacks and Python's own objects; it costs 1 ms for some 5,000 free pieces."""
        info = self._info()
        _, resident, shared, *_ = map(int, _STATM.read_text().split())
        return (resident - shared) * resource.getpagesize() - int(info.uordblks) - int(info.hblkhd)

    def trim(self) -> None:
        """Give free pages back to the system."""
        self._trim(0)


def _set(option: int, value: int) -> None:
    """Set an option, unless someone has set any by the library's own variables."""
    if any(name.startswith("MALLOC_") for name in os.environ) or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(option, value)
