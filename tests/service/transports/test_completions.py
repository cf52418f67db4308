import asyncio
import threading

from service.transports.completions import Completions


class CountingLoop(asyncio.SelectorEventLoop):
    """A real event loop that counts how often another thread woke it."""

    wakeups = 0

    def call_soon_threadsafe(self, callback, *args, context=None):
        self.wakeups += 1
        return super().call_soon_threadsafe(callback, *args, context=context)


def run(main):
    with asyncio.Runner(loop_factory=CountingLoop) as runner:
        return runner.run(main())


def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_batch_of_results_wakes_the_loop_once():
    async def main():
        loop = asyncio.get_running_loop()
        completions = Completions(loop)
        futures = [completions.future() for _ in range(100)]
        # The loop is held up here until the thread has put all of them.
        in_thread(lambda: [completions.put(future, number) for number, future in enumerate(futures)])
        return await asyncio.gather(*futures), loop.wakeups

    assert run(main) == (list(range(100)), 1)


def test_results_from_the_thread_of_the_loop_wake_nobody():
    async def main():
        loop = asyncio.get_running_loop()
        completions = Completions(loop)
        answered, cancelled = completions.future(), completions.future()
        cancelled.cancel()
        for future in (answered, cancelled):
            completions.put(future, 1)
        return await answered, loop.wakeups

    assert run(main) == (1, 0)


def test_results_are_set_in_the_order_in_which_they_came():
    async def main():
        completions = Completions(asyncio.get_running_loop())
        futures, order = [completions.future() for _ in range(5)], []
        for future in futures:
            future.add_done_callback(lambda done: order.append(done.result()))
        in_thread(lambda: [completions.put(futures[position], position) for position in (3, 0, 4, 1, 2)])
        await asyncio.gather(*futures)
        return order

    assert run(main) == [3, 0, 4, 1, 2]


def test_a_later_result_wakes_the_loop_again():
    async def main():
        loop = asyncio.get_running_loop()
        completions = Completions(loop)
        for number in range(3):
            future = completions.future()
            in_thread(lambda future=future, number=number: completions.put(future, number))
            assert await future == number
        return loop.wakeups

    assert run(main) == 3


def test_a_future_that_was_cancelled_is_left_alone_and_the_rest_is_served():
    async def main():
        completions = Completions(asyncio.get_running_loop())
        gone, waiting = completions.future(), completions.future()
        in_thread(lambda: [completions.put(gone, "late"), completions.put(waiting, "answer")])
        gone.cancel()
        return await waiting, gone.cancelled()

    assert run(main) == ("answer", True)


def test_a_result_that_is_put_while_results_are_set_arrives():
    async def main():
        completions = Completions(asyncio.get_running_loop())
        first, second = completions.future(), completions.future()
        first.add_done_callback(lambda _: completions.put(second, "second"))
        in_thread(lambda: completions.put(first, "first"))
        return await first, await second

    assert run(main) == ("first", "second")


def test_no_result_is_lost_between_many_threads():
    async def main():
        completions = Completions(asyncio.get_running_loop())
        futures = [completions.future() for _ in range(4000)]
        threads = [
            threading.Thread(target=lambda start=start: [completions.put(futures[i], i) for i in range(start, 4000, 8)])
            for start in range(8)
        ]
        for thread in threads:
            thread.start()
        results = await asyncio.wait_for(asyncio.gather(*futures), timeout=60)
        for thread in threads:
            thread.join()
        return results

    assert run(main) == list(range(4000))


def test_all_that_wait_can_be_told_at_once_and_later_results_are_dropped():
    async def main():
        completions = Completions(asyncio.get_running_loop())
        early, waiting = completions.future(), completions.future()
        completions.put(early, "early")
        assert await early == "early"
        completions.settle("in vain")
        completions.put(waiting, "late")
        await asyncio.sleep(0)
        return early.result(), await waiting

    assert run(main) == ("early", "in vain")
