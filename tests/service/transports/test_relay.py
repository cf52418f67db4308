import queue
import threading
import weakref

import pytest

from service.transports.relay import Relay

WAIT_S = 30.0


class Source:
    """What a relay receives, and in which threads."""

    def __init__(self):
        self.items = queue.Queue()
        self.receivers = []
        self._receiving = threading.Lock()

    def receive(self):
        assert self._receiving.acquire(blocking=False), "two threads received at once"
        try:
            item = self.items.get(timeout=WAIT_S)
        finally:
            self._receiving.release()
        self.receivers.append(threading.current_thread())
        return item


@pytest.fixture
def source():
    return Source()


@pytest.fixture
def relay(source):
    """A relay that is given errands, which it runs, or anything else, which it drops."""
    relay = Relay("relay", source.receive, lambda item: item if callable(item) else None)
    relay.start()
    yield relay
    source.items.put(None)
    relay.join()


def errand(source):
    """Let the relay run something, and return the thread that ran it."""
    done = queue.Queue()
    source.items.put(lambda: done.put(threading.current_thread()))
    return done.get(timeout=WAIT_S)


class Large:
    """Something that was received, which is an errand as well if it can be called."""


class LargeErrand(Large):
    def __call__(self):
        pass


@pytest.mark.usefixtures("relay")
@pytest.mark.parametrize("kind", [Large, LargeErrand])
def test_nothing_is_kept_of_what_was_received_while_nothing_comes(source, kind):
    gone = threading.Event()
    large = kind()
    weakref.finalize(large, gone.set)
    source.items.put(large)
    del large

    assert gone.wait(WAIT_S)


@pytest.mark.usefixtures("relay")
def test_the_thread_that_received_an_errand_runs_it(source, monkeypatch):
    monkeypatch.setattr("service.transports.relay._PATIENCE_S", WAIT_S)
    threads = [errand(source) for _ in range(100)]

    assert threads == source.receivers
    assert len(set(threads)) == 1


@pytest.mark.usefixtures("relay")
def test_another_thread_receives_while_an_errand_hangs(source):
    held, released = threading.Event(), threading.Event()
    for _ in range(3):
        held.clear()
        released.clear()

        def hang(held=held, released=released):
            held.set()
            assert released.wait(WAIT_S)

        source.items.put(hang)
        assert held.wait(WAIT_S)
        hanging = source.receivers[-1]
        others = {errand(source) for _ in range(10)}
        assert hanging not in others
        released.set()


def test_the_end_is_told_though_an_errand_hangs(source):
    held, released = threading.Event(), threading.Event()

    def hang():
        held.set()
        assert released.wait(WAIT_S)

    relay = Relay("relay", source.receive, lambda item: item)
    relay.start()
    source.items.put(hang)
    assert held.wait(WAIT_S)
    source.items.put(None)
    relay.join()
    released.set()
    for thread in relay._threads:
        thread.join(WAIT_S)

    assert not any(thread.is_alive() for thread in relay._threads)


def test_a_relay_that_was_never_started_needs_no_end(source):
    Relay("relay", source.receive, lambda item: item).join()
