"""Versions out of service finish what they took, in the background; who needs their memory can wait for it."""

import threading

import pytest

from service.errors import UnavailableError
from service.request import InferResponse
from service.retirement import Retirements
from tests.service.serving import WAIT_S, Gate, kit, message, model_version, serving


@pytest.fixture
def retirements():
    made = Retirements()
    yield made
    made.finish(WAIT_S)


@pytest.fixture
def busy():
    """A service whose one version runs a request that waits at a gate."""
    gate = Gate()
    with serving(kit(store=gate)) as served:
        served.gate = gate
        served.version = served.repository.find("clip", "").loaded
        served.running, _ = served.submit(message(signature="store"))
        gate.wait_until_entered()
        yield served
        gate.opened.set()


def ignore(_loaded):
    """Be told that a version is closed, and do nothing."""


def test_version_is_told_closed_once_its_memory_is_free(retirements):
    loaded, told = model_version(kit()), []
    retirements.start(loaded, lambda each: told.append((each, each.servable.closed)))

    assert retirements.wait("clip", WAIT_S)
    assert told == [(loaded, True)]


def test_start_returns_at_once_and_what_was_taken_is_finished(retirements, busy):
    waiting, _ = busy.submit(message(signature="store"))
    retirements.start(busy.version, ignore)

    assert not busy.version.servable.closed
    busy.gate.opened.set()
    assert isinstance(busy.running.wait(), InferResponse)
    assert isinstance(waiting.wait(), InferResponse)
    assert retirements.wait("clip", WAIT_S)
    assert busy.version.servable.closed


def test_wait_is_for_one_model_and_has_an_end(retirements, busy):
    retirements.start(busy.version, ignore)

    assert retirements.wait("bert", WAIT_S)
    assert not retirements.wait("clip", 0.01)


def test_finish_fails_what_still_waits_at_the_end_of_its_time_and_lets_runs_end(retirements, busy):
    waiting, _ = busy.submit(message(signature="store"))
    retirements.start(busy.version, ignore)
    finishing = threading.Thread(target=retirements.finish, args=(0.01,))
    finishing.start()

    assert isinstance(waiting.wait(), UnavailableError)
    busy.gate.opened.set()
    assert isinstance(busy.running.wait(), InferResponse)
    finishing.join(WAIT_S)
    assert busy.version.servable.closed


def test_version_that_cannot_be_closed_is_logged_and_ends_like_any_other(retirements, caplog):
    loaded, told = model_version(kit()), []
    loaded.servable.close = None  # a defect: calling it fails
    retirements.start(loaded, told.append)

    assert retirements.wait("clip", WAIT_S)
    assert told == [loaded]
    assert [record.getMessage() for record in caplog.records] == [f"closing {loaded!r} failed"]


def test_what_is_gone_is_no_longer_listed(retirements):
    loaded = model_version(kit())
    retirements.start(loaded, ignore)
    retirements.wait("clip", WAIT_S)

    assert repr(retirements) == "<Retirements []>"
