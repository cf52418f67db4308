"""When memory that was freed goes back to the system, which the C library does not do by itself.

20 answers of 10 MiB that nobody read left 300 to 500 MiB behind. To return every large block at once would fill each
large message with fresh pages: 11 ms instead of 0.5 ms for 15 MB. So pages stay while requests come, and go when there
are none. To give back 1 MiB takes 0.1 ms, and who allocates meanwhile waits.
"""

from typing import Final, Protocol

LOOK_S: Final = 5.0
"""Seconds from one look to the next, at least."""

LULL_S: Final = 60.0
"""For so many seconds after the last work every look counts. At other times so many lie between two that count."""

KEPT_AT_REST: Final = 16 << 20
"""Bytes that may lie free while the process does nothing."""

KEPT_AT_WORK: Final = 256 << 20
"""Bytes that may lie free while it works, since it may want them again at once."""

_NOTHING: Final = 1 << 20
"""Bytes; so little more or less means nothing."""

REST: Final = 0.02
"""The share of one CPU below which the process counts as doing nothing."""


class Heap(Protocol):
    """Memory that was allocated, and what of it was freed."""

    def spare(self) -> int:
        """Return the bytes that are resident and not allocated, with others among them whose number hardly changes."""
        ...

    def trim(self) -> None:
        """Give free pages back to the system."""
        ...


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
        self._least = min(self._least, spare)
        if spare - self._least <= kept:
            return
        heap.trim()
        # What was freed during the trim is still there, and must not count as what stays; so only a trim that brought
        # nothing tells what does.
        if heap.spare() > spare - _NOTHING:
            self._least = spare
