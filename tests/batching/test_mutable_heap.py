from hypothesis import given
from hypothesis import strategies as st

from batching.mutable_heap import MutableHeap

CHANGES = st.lists(st.tuples(st.integers(0, 20), st.one_of(st.none(), st.integers(0, 50))), max_size=400)


@given(CHANGES)
def test_first_is_always_the_lowest_rank_that_is_in(changes):
    heap, model = MutableHeap(), {}
    for item, rank in changes:
        if rank is None:
            heap.discard(item)
            model.pop(item, None)
        else:
            heap.set(item, rank)
            model[item] = rank
        first = heap.first()
        assert (first is None) == (not model)
        assert len(heap) == len(model)
        if first is not None:
            assert first[0] == min(model.values())
            assert model[first[1]] == first[0]


def test_equal_ranks_come_in_the_order_in_which_they_were_set():
    heap = MutableHeap()
    for item in "cab":
        heap.set(item, 1)

    order = []
    while (first := heap.first()) is not None:
        order.append(first[1])
        heap.discard(first[1])

    assert order == ["c", "a", "b"]


def test_moved_and_removed_items_do_not_pile_up():
    heap = MutableHeap()
    for number in range(10_000):
        heap.set("moved", number)
        heap.set(number, number)
        heap.discard(number)

    assert len(heap._heap) < 200
