"""A worker that hangs is noticed once, with the places where all threads are, and forgiven when it goes on."""

import logging
import threading

import pytest

from service.watchdog import Watchdog, stuck_runs
from tests.service.serving import Busy, kit, message, serving

WAIT_S = 30
WELL, UNWELL = True, False
PERIOD_S = 0.005


class Teller:
    """Remembers what it was told, and lets tests wait for it."""

    def __init__(self):
        self.told = []
        self._changed = threading.Condition()

    def __call__(self, well):
        with self._changed:
            self.told.append(well)
            self._changed.notify_all()

    def wait_for(self, *told):
        with self._changed:
            assert self._changed.wait_for(lambda: self.told == list(told), WAIT_S), self.told


@pytest.fixture
def watch():
    """Start watchdogs that are closed when the test ends."""
    made = []

    def start(look, tell):
        made.append(Watchdog(look, tell, PERIOD_S))
        return made[-1]

    yield start
    for each in made:
        each.close()


def stacks(caplog):
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("thread ")]


def test_run_that_takes_too_long_is_told_once_with_all_stacks_and_so_is_its_end(watch, caplog):
    caplog.set_level(logging.WARNING, "service.watchdog")
    tell = Teller()
    with Busy() as busy:
        looks = threading.Semaphore(0)

        def look():
            looks.release()
            return stuck_runs(busy.served.repository.loaded_versions(), 0.01)

        watchdog = watch(look, tell)
        tell.wait_for(UNWELL)
        for _ in range(10):
            assert looks.acquire(timeout=WAIT_S)
        assert tell.told == [UNWELL]
        assert "1 of its runs take longer than 0.01 s" in repr(watchdog)
        busy.gate.opened.set()
        tell.wait_for(UNWELL, WELL)

    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert told[0] == "not live: model 'clip' version 1: 1 of its runs take longer than 0.01 s"
    (worker,) = [line for line in stacks(caplog) if "clip-1-" in line and "serving.py" in line]
    assert "__call__" in worker
    assert len([line for line in stacks(caplog) if "'MainThread'" in line]) == 1
    assert [record.getMessage() for record in caplog.records][-1] == "live again: what hung has ended"


def test_version_that_finishes_what_it_took_is_watched_too():
    with Busy() as busy:
        busy.served.repository.unload("clip")
        while not (problems := stuck_runs(busy.served.repository.loaded_versions(), 0.001)):
            pass

    assert problems == ["model 'clip' version 1: 1 of its runs take longer than 0.001 s"]


def test_run_may_take_as_long_as_it_likes_where_no_time_is_given():
    with Busy() as busy:
        assert stuck_runs(busy.served.repository.loaded_versions(), 0.0) == []


def test_idle_workers_are_not_stuck():
    with serving(kit()) as served:
        served.send(message())
        assert stuck_runs(served.repository.loaded_versions(), 1e-9) == []


def test_worker_thread_that_died_is_told():
    with serving(kit()) as served:
        (loaded,) = served.repository.loaded_versions()
        dead = threading.Thread()
        dead.start()
        dead.join()
        loaded.scheduler._threads.append(dead)

        assert stuck_runs([loaded], 0.0) == ["model 'clip' version 1: a worker thread has died"]


def test_second_problem_beside_a_first_is_logged_but_told_only_once(watch, caplog):
    tell, problems = Teller(), ["a"]
    watch(lambda: list(problems), tell)
    tell.wait_for(UNWELL)
    problems.append("b")
    while not any("not live: b" in record.getMessage() for record in caplog.records):
        pass
    problems.clear()
    tell.wait_for(UNWELL, WELL)


def test_watchdog_that_cannot_look_goes_on(watch, caplog):
    tell, looks = Teller(), iter([RuntimeError("a defect"), []])

    def look():
        result = next(looks, ["a"])
        if isinstance(result, Exception):
            raise result
        return result

    watch(look, tell)
    tell.wait_for(UNWELL)
    assert "a defect" in caplog.text
