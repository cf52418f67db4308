import asyncio

import pytest

from service.transports.allowance import Allowance


def has_room(allowance):
    """Return whether nobody would have to wait."""

    async def ask():
        waiting = asyncio.ensure_future(allowance.room())
        await asyncio.sleep(0)
        waiting.cancel()
        return waiting.done()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("requests", "nbytes", "room"),
    [(0, 0, True), (1, 9, True), (2, 0, False), (0, 10, False), (3, 5, False), (1, 1000, False), (2, 10, False)],
)
def test_there_is_room_while_both_counts_are_below_their_limits(requests, nbytes, room):
    allowance = Allowance(2, 10)
    allowance.use(requests=requests, nbytes=nbytes)

    assert has_room(allowance) is room


def test_giving_back_makes_room_for_who_waits():
    async def main():
        allowance = Allowance(1, 10)
        allowance.use(requests=1, nbytes=20)
        waiting = asyncio.create_task(allowance.room())
        await asyncio.sleep(0)
        allowance.use(nbytes=-15)
        await asyncio.sleep(0)
        early = waiting.done()
        allowance.use(requests=-1)
        await waiting
        return early

    assert asyncio.run(main()) is False


def test_it_tells_what_is_used():
    allowance = Allowance(2, 10)
    allowance.use(requests=1, nbytes=3)

    assert repr(allowance) == "<Allowance 1/2 requests, 3/10 bytes>"
