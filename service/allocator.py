"""Gives memory that was freed back to the system, which glibc's allocator does not do by itself.

glibc keeps freed blocks of up to 32 MiB, and one small piece behind them keeps all of them resident: 20 answers of 10
MiB that nobody read left 300 to 500 MiB. A fixed threshold (``M_MMAP_THRESHOLD``) would end that, but fill every large
message with fresh pages: 11 ms instead of 0.5 ms for 15 MB. So pages stay while requests come, and go when there are
none. To give back 1 MiB takes 0.1 ms, and who allocates from the same arena waits meanwhile.
"""

import ctypes
import resource
from pathlib import Path
from typing import Final, Protocol, Self

LOOK_S: Final = 5.0
"""Seconds from one look to the next, at least."""

LULL_S: Final = 60.0
"""For so many seconds after the last work every look counts. At other times so many lie between two that count."""

KEPT_AT_REST: Final = 16 << 20
"""Bytes that may lie free while the process does nothing."""

KEPT_AT_WORK: Final = 256 << 20
"""Bytes that may lie free while it works, since it may want them again at once."""

REST: Final = 0.02
"""The share of one CPU below which the process counts as doing nothing."""

_STATM: Final = Path("/proc/self/statm")


class Heap(Protocol):
    """Memory that was allocated, and what of it was freed."""

    def spare(self) -> int:
        """Return the bytes that are resident and not allocated, with others among them whose number hardly changes."""
        ...

    def trim(self) -> None:
        """Give free pages back to the system."""
        ...


class _Info(ctypes.Structure):
    """``struct mallinfo2`` of mallinfo(3)."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd")),
        *((name, ctypes.c_size_t) for name in ("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")),
    )


class GlibcHeap:
    """That of glibc. Where another allocator was preloaded it stays empty, so that there is nothing to do."""

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


class FreeMemory:
    """What was freed and is still resident. For one thread, which should be none that answers requests."""

    def __init__(self, heap: Heap | None, now_s: float, cpu_s: float) -> None:
        """Take what is resident and not allocated now for what stays.

        Args:
            heap: where freed memory lies; None where nothing can be given back.
            now_s: this moment, as a monotonic clock tells it.
            cpu_s: CPU time that the process has used so far.
        """
        self._heap: Final = heap
        self._looked_s = self._worked_s = self._counted_s = now_s
        self._cpu_s = cpu_s
        self._least = 0 if heap is None else heap.spare()

    def look(self, now_s: float, cpu_s: float) -> None:
        """Give back what was freed, if it is much and it is time; may be called as often as one likes.

        Args:
            now_s: this moment, as a monotonic clock tells it.
            cpu_s: CPU time that the process has used so far.
        """
        passed_s = now_s - self._looked_s
        if self._heap is None or passed_s < LOOK_S:
            return
        at_rest = cpu_s - self._cpu_s < REST * passed_s
        self._looked_s, self._cpu_s = now_s, cpu_s
        if not at_rest:
            self._worked_s = now_s
        in_lull = at_rest and now_s - self._worked_s < LULL_S
        if in_lull or now_s - self._counted_s >= LULL_S:
            self._counted_s = now_s
            self._give_back(self._heap, KEPT_AT_REST if at_rest else KEPT_AT_WORK)

    def _give_back(self, heap: Heap, kept: int) -> None:
        spare = heap.spare()
        if spare - self._least > kept:
            heap.trim()
            self._least = heap.spare()
        else:
            self._least = min(self._least, spare)
