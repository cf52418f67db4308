import asyncio

import pytest

from service.errors import UnavailableError
from service.transports.lasting import LastingCalls


async def last(lasting):
    with lasting.until_stop():
        await asyncio.Event().wait()


async def begun(lasting):
    """Return a task that waits inside a block."""
    task = asyncio.create_task(last(lasting))
    await asyncio.sleep(0)
    return task


def test_stop_interrupts_every_block():
    async def main():
        lasting = LastingCalls()
        tasks = [await begun(lasting) for _ in range(3)]
        lasting.stop()
        return await asyncio.gather(*tasks, return_exceptions=True)

    errors = asyncio.run(main())
    assert [type(error) for error in errors] == [UnavailableError] * 3
    assert {str(error) for error in errors} == {"the server is stopping"}


def test_task_goes_on_after_its_block_was_interrupted():
    async def work(lasting):
        with pytest.raises(UnavailableError):
            await last(lasting)
        await asyncio.sleep(0)
        return "done", asyncio.current_task().cancelling()

    async def main():
        lasting = LastingCalls()
        task = asyncio.create_task(work(lasting))
        await asyncio.sleep(0)
        lasting.stop()
        return await task

    assert asyncio.run(main()) == ("done", 0)


def test_block_begun_after_the_stop_is_refused():
    async def main():
        lasting = LastingCalls()
        lasting.stop()
        await last(lasting)

    with pytest.raises(UnavailableError):
        asyncio.run(main())


def test_block_that_ended_is_left_alone():
    async def work(lasting, stopped):
        with lasting.until_stop():
            pass
        await stopped.wait()
        return "done"

    async def main():
        lasting, stopped = LastingCalls(), asyncio.Event()
        task = asyncio.create_task(work(lasting, stopped))
        await asyncio.sleep(0)
        lasting.stop()
        stopped.set()
        return await task

    assert asyncio.run(main()) == "done"


@pytest.mark.parametrize("stop_too", [False, True])
def test_task_that_someone_else_cancels_is_cancelled(stop_too):
    async def main():
        lasting = LastingCalls()
        task = await begun(lasting)
        if stop_too:
            lasting.stop()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return repr(lasting)

    assert asyncio.run(main()) == ("<LastingCalls 0 open, stopped>" if stop_too else "<LastingCalls 0 open>")


def test_a_second_stop_does_nothing():
    async def work(lasting):
        try:
            await last(lasting)
        except UnavailableError:
            await asyncio.sleep(0)
            return "ended once"

    async def main():
        lasting = LastingCalls()
        task = asyncio.create_task(work(lasting))
        await asyncio.sleep(0)
        lasting.stop()
        lasting.stop()
        return await task

    assert asyncio.run(main()) == "ended once"
