import queue
import threading
import time
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


# For those who watch. ------------------------------------------------------------------------------------------------


def wait_until(holds):
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("where", ["taking", "errand"])
def test_it_tells_since_when_nobody_receives(source, where):
    held, released = threading.Semaphore(0), threading.Event()

    def hang():
        held.release()
        assert released.wait(WAIT_S)

    relay = Relay("relay", source.receive, lambda item: item() if where == "taking" else item)
    assert relay.busy_since is None
    relay.start()
    began = time.monotonic()
    hanging = 1 if where == "taking" else 2  # while one runs an errand, the other one receives
    for _ in range(hanging):
        source.items.put(hang)
        assert held.acquire(timeout=WAIT_S)
    wait_until(lambda: relay.busy_since is not None)
    assert began <= relay.busy_since <= time.monotonic()
    released.set()
    wait_until(lambda: relay.busy_since is None)
    source.items.put(None)
    relay.join()

    assert relay.busy_since is None


def test_one_that_hangs_while_the_other_receives_holds_up_nobody(relay, source):
    held, released = threading.Event(), threading.Event()

    def hang():
        held.set()
        assert released.wait(WAIT_S)

    source.items.put(hang)
    assert held.wait(WAIT_S)
    wait_until(lambda: relay.busy_since is None)
    assert relay.is_alive
    released.set()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_died_is_told(source):
    def fail():
        raise RuntimeError("a defect")

    relay = Relay("relay", source.receive, lambda item: item)
    assert relay.is_alive
    relay.start()
    assert relay.is_alive
    source.items.put(fail)
    wait_until(lambda: not relay.is_alive)
    errand(source)  # the other one goes on
    source.items.put(None)
    relay.join()


def test_threads_that_ended_when_they_should_have_not_died(source):
    relay = Relay("relay", source.receive, lambda item: item)
    relay.start()
    source.items.put(None)
    relay.join()
    for thread in relay._threads:
        thread.join(WAIT_S)

    assert relay.is_alive
