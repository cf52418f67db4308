"""A heap whose entries can be moved and taken out."""

import heapq
from typing import Any, Generic, TypeVar

Rank = TypeVar("Rank", bound=Any)
Item = TypeVar("Item")


class MutableHeap(Generic[Rank, Item]):
    """Items in ascending order of a rank that may change; equal ranks in the order in which they were set.

    Moving or removing an item leaves its old entry in the heap, where it is skipped later. When such entries are more
    than half of the heap it is built anew. So a change costs O(log n) amortised, and memory is bounded by twice the
    number of items. Items are told apart by hash and equality. Not thread-safe.
    """

    __slots__ = ("_entries", "_heap", "_number")

    _SLACK = 64  # below this many entries building anew is not worth it

    def __init__(self) -> None:
        self._heap: list[tuple[Rank, int, Item]] = []
        self._entries: dict[Item, int] = {}  # the number of the one entry of an item that counts
        self._number = 0

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, item: Item, rank: Rank) -> None:
        """Put the item in, or move it, to this rank."""
        self._number += 1
        self._entries[item] = self._number
        heapq.heappush(self._heap, (rank, self._number, item))
        if len(self._heap) > 2 * len(self._entries) + self._SLACK:
            self._rebuild()

    def discard(self, item: Item) -> None:
        """Take the item out, if it is in."""
        self._entries.pop(item, None)

    def first(self) -> tuple[Rank, Item] | None:
        """The lowest rank and its item; None when empty."""
        heap = self._heap
        while heap:
            rank, number, item = heap[0]
            if self._entries.get(item) == number:
                return rank, item
            heapq.heappop(heap)
        return None

    def _rebuild(self) -> None:
        self._heap = [entry for entry in self._heap if self._entries.get(entry[2]) == entry[1]]
        heapq.heapify(self._heap)
