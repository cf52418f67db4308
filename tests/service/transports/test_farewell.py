"""How a stopping server takes leave of callers that go on calling."""

import asyncio

import grpc
import pytest

from service.transports import farewell
from service.transports.farewell import Farewell
from tests.service.serving import WAIT_S, kit, serving
from tests.service.transports import channels
from tests.service.transports.test_calls import request

CALLERS = 16
ANSWERS_BEFORE = 100


@pytest.mark.usefixtures("each_transport")
def test_callers_that_call_again_at_once_see_no_other_status_than_unavailable():
    answered, codes = [], []
    stopped = asyncio.Event()

    async def call(served):
        async with grpc.aio.insecure_channel(served.address, options=channels.CLIENT_OPTIONS) as channel:
            stub = type(served.stub)(channel)
            while not stopped.is_set():
                try:
                    answered.append(await stub.ModelInfer(request(), timeout=WAIT_S))
                except grpc.aio.AioRpcError as error:
                    codes.append(error.code())

    async def main():
        with serving(kit()) as model:
            async with channels.connected(model) as served:
                callers = [asyncio.create_task(call(served)) for _ in range(CALLERS)]
                await channels.eventually(lambda: len(answered) >= ANSWERS_BEFORE)
                await served.transport.stop(WAIT_S)
                await channels.eventually(lambda: len(codes) >= CALLERS)
                stopped.set()
                await asyncio.gather(*callers)

    channels.run(main)
    assert set(codes) == {grpc.StatusCode.UNAVAILABLE}


def test_calls_pass_at_once_before_and_after():
    async def main():
        leaving = Farewell()
        await leaving.turn()
        await leaving.hold(0)
        leaving.release()
        await leaving.turn()

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


def test_calls_are_held_until_they_are_released_and_the_hold_ends_when_no_more_come():
    async def main():
        leaving = Farewell()
        holding = asyncio.create_task(leaving.hold(WAIT_S))
        await asyncio.sleep(0)
        calls = [asyncio.create_task(leaving.turn()) for _ in range(3)]
        await holding
        assert not any(call.done() for call in calls)
        leaving.release()
        await asyncio.gather(*calls)

    asyncio.run(asyncio.wait_for(main(), WAIT_S))


@pytest.mark.parametrize("most_s", [0.0, 0.2, WAIT_S])
def test_callers_that_never_pause_do_not_hold_up_the_end(monkeypatch, most_s):
    monkeypatch.setattr(farewell, "_LULL_S", 2 * WAIT_S)

    async def main():
        loop = asyncio.get_running_loop()
        began = loop.time()
        await Farewell().hold(most_s)
        return loop.time() - began

    assert asyncio.run(asyncio.wait_for(main(), WAIT_S)) >= min(most_s, farewell._LONGEST_HOLD_S)
