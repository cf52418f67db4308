import math
import threading
import time

import pytest

from batching.sleepers import Sleepers


class Dormitory:
    """Threads that go to sleep when they are told to, and count how often they came out."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sleepers = Sleepers(self.lock)
        self.woken = threading.Semaphore(0)
        self._going = threading.Semaphore(0)

    def put_to_sleep(self, due):
        thread = threading.Thread(target=self._sleep, args=(due,))
        thread.start()
        assert self._going.acquire(timeout=30)
        with self.lock:  # the thread gives it free only by falling asleep
            return thread

    def asleep(self):
        with self.lock:
            return self.sleepers._num_asleep

    def _sleep(self, due):
        with self.lock:
            self._going.release()
            self.sleepers.sleep(due)
        self.woken.release()


@pytest.fixture
def dormitory():
    dormitory = Dormitory()
    yield dormitory
    with dormitory.lock:
        dormitory.sleepers.wake_all()


def test_only_one_thread_keeps_the_time(dormitory):
    due = time.monotonic() + 0.05
    threads = [dormitory.put_to_sleep(due) for _ in range(3)]

    assert dormitory.woken.acquire(timeout=30)
    assert time.monotonic() >= due
    assert dormitory.asleep() == 2
    with dormitory.lock:
        dormitory.sleepers.wake_all()
    for thread in threads:
        thread.join()


def test_later_time_is_watched_once_an_earlier_one_has_passed(dormitory):
    for _ in range(2):
        thread = dormitory.put_to_sleep(time.monotonic() + 0.02)
        thread.join(timeout=30)

    assert not thread.is_alive()


def test_earlier_time_wakes_a_thread_and_a_later_one_does_not(dormitory):
    thread = dormitory.put_to_sleep(time.monotonic() + 1000.0)
    with dormitory.lock:
        dormitory.sleepers.wake_for(time.monotonic() + 2000.0)
        assert dormitory.sleepers.num_waking == 0
        dormitory.sleepers.wake_for(time.monotonic() + 500.0)
        assert dormitory.sleepers.num_waking == 1
        dormitory.sleepers.wake_for(time.monotonic() + 500.0)
        assert dormitory.sleepers.num_waking == 1
    thread.join(timeout=30)

    assert dormitory.woken.acquire(blocking=False)
    assert dormitory.sleepers.num_waking == 0


def test_nothing_due_means_sleeping_until_woken(dormitory):
    thread = dormitory.put_to_sleep(math.inf)
    with dormitory.lock:
        dormitory.sleepers.wake_for(-math.inf)
    thread.join(timeout=30)

    assert dormitory.woken.acquire(blocking=False)


def test_time_too_far_for_the_clock_is_no_error(dormitory):
    thread = dormitory.put_to_sleep(1e300)
    with dormitory.lock:
        dormitory.sleepers.wake_all()
    thread.join(timeout=30)

    assert dormitory.woken.acquire(blocking=False)
