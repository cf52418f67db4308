"""What comes, changes and goes on disk comes, changes and goes in service: when, and what serves meanwhile.

Polls are made one by one, as if the time for each had come; what each load brings is a fake.
"""

import logging
import shutil
import threading
import time

import pytest

from service.errors import LoadError, NotFoundError
from service.model_places import ModelPlaces
from service.repository import Repository
from service.repository_poller import RepositoryPoller
from service.request import InferResponse
from service.settings import ReloadPolicy
from tests.service.loads import Loader, ModelDirectory, states
from tests.service.serving import WAIT_S, Gate, Serving, kit, message

READY = "READY"
INTERVAL_S = 1000.0
"""Of polls, and the quiet time: longer than any test, so that nothing that it writes has lain still."""
UNLOADED = ("UNAVAILABLE", "unloaded")


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def repository(loader):
    made = Repository(loader)
    yield made
    loader.gate.set()
    made.close(WAIT_S)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def clip(root):
    return ModelDirectory(root, "clip", 1)


@pytest.fixture
def poller(repository, root):
    return RepositoryPoller(repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S)


@pytest.fixture
def polled(poller, clip):
    """The poller of a server that serves ``clip``."""
    poll(poller, 2)
    return poller


def poll(poller, times=1):
    for _ in range(times):
        poller.poll()


def served(repository):
    return [loaded.version for loaded in repository.ready_versions("clip")]


# What comes. -----------------------------------------------------------------------------------------------------


def test_new_model_is_loaded_once_two_polls_saw_the_same(repository, loader, poller, clip):
    poll(poller)
    assert repository.model_names() == []
    poll(poller)
    assert served(repository) == [1]
    poll(poller, 10)
    assert loader.loads == [("clip", 1)]


def test_model_that_is_being_written_is_left_alone_until_it_rests(loader, poller, clip):
    for _ in range(5):
        poll(poller)
        clip.touch(1)
    assert loader.loads == []
    poll(poller, 2)
    assert loader.loads == [("clip", 1)]


def test_model_must_be_left_alone_for_the_whole_quiet_time(repository, loader, root, clip):
    poller = RepositoryPoller(repository, ModelPlaces([root], []), 15.0, 50.0)
    poll(poller, 4)
    clip.touch(1)
    poll(poller, 4)
    assert loader.loads == []
    poll(poller)
    assert loader.loads == [("clip", 1)]


@pytest.fixture
def later(repository, root):
    """A poller in whose eyes nothing was written for long."""
    return RepositoryPoller(
        repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S, now=lambda: time.time() + 2 * INTERVAL_S
    )


def test_what_lay_still_before_it_came_counts_at_once(repository, later, clip):
    """It was moved into place whole, or was there all the time."""
    poll(later)
    assert served(repository) == [1]
    clip.add(2)
    poll(later)
    assert served(repository) == [2]


@pytest.mark.parametrize("what", ["1", "2", "config.pbtxt"])
def test_what_went_must_stay_away_although_the_rest_lies_still(repository, loader, later, root, what):
    clip = ModelDirectory(root, "clip", 1, 2, config="version_policy { all {} } max_batch_size: 3")
    poll(later)
    before = repository.ready_versions("clip")
    (clip.path / what).rename(root / ".aside")
    poll(later)
    assert repository.ready_versions("clip") == before
    poll(later)
    assert repository.ready_versions("clip") != before


def test_new_version_takes_over(repository, polled, clip):
    clip.add(2)
    poll(polled, 2)

    assert states(repository) == [("1", *UNLOADED), ("2", READY, "")]


def test_model_that_was_loaded_at_the_start_is_not_loaded_again(repository, loader, poller, clip):
    repository.add(clip.source())
    repository.load("clip")
    poll(poller, 5)

    assert loader.loads == [("clip", 1)]


def test_model_that_failed_at_the_start_is_tried_again(repository, loader, poller, clip):
    loader.failures[1] = LoadError("not yet")
    repository.add(clip.source())
    repository.load("clip")
    loader.failures.clear()
    poll(poller, 2)

    assert served(repository) == [1]
    assert repository.every_model_is_ready()


def test_directory_without_a_version_is_no_model_yet(repository, poller, root):
    for name in ("clip", "docs"):
        (root / name).mkdir()
    (root / "clip" / "config.pbtxt").touch()
    poll(poller, 5)
    assert repository.model_names() == []
    assert repository.every_model_is_ready()
    ModelDirectory(root, "clip", 3)
    poll(poller, 2)
    assert served(repository) == [3]


# What changes. ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["config.pbtxt", "labels.txt"])
def test_changed_configuration_or_labels_reload_the_model(repository, loader, polled, clip, name):
    (clip.path / name).write_text("# new")
    poll(polled, 2)

    assert loader.loads == [("clip", 1), ("clip", 1)]
    assert states(repository) == [("1", READY, "")]


def test_changed_configuration_holds(repository, polled, clip):
    clip.configure("max_batch_size: 7")
    poll(polled, 2)

    assert repository.find("clip", "").loaded.config.model.max_batch_size == 7


def test_changed_files_of_a_served_version_reload_it(loader, polled, clip):
    clip.touch(1)
    poll(polled, 2)

    assert loader.loads == [("clip", 1), ("clip", 1)]


def test_changed_files_that_cannot_be_loaded_leave_what_serves(repository, loader, polled, clip):
    first = repository.find("clip", "").loaded
    clip.touch(1)
    loader.failures[1] = LoadError("it is cut")
    poll(polled, 2)
    assert repository.find("clip", "").loaded is first
    loader.failures.clear()
    poll(polled)

    assert repository.find("clip", "").loaded is not first


def test_broken_configuration_leaves_what_serves(repository, polled, clip):
    clip.configure("max_batch_size: many")
    poll(polled, 3)
    assert states(repository) == [("1", READY, "")]
    clip.configure("max_batch_size: 7")
    poll(polled, 2)
    assert repository.find("clip", "").loaded.config.model.max_batch_size == 7


def test_model_with_a_broken_configuration_says_so_until_it_is_mended(repository, poller, clip):
    clip.configure("max_batch_size: many")
    poll(poller, 2)
    ((version, state, reason),) = states(repository)
    assert (version, state) == ("", "UNAVAILABLE")
    assert "config.pbtxt:1:17" in reason
    assert not repository.every_model_is_ready()
    clip.configure("")
    poll(poller, 2)
    assert states(repository) == [("1", READY, "")]
    assert repository.every_model_is_ready()


# What goes. ------------------------------------------------------------------------------------------------------


def test_version_that_vanished_is_unloaded_once_two_polls_saw_it(repository, poller, root):
    clip = ModelDirectory(root, "clip", 1, 2, config="version_policy { all {} }")
    poll(poller, 2)
    shutil.rmtree(clip.path / "2")
    poll(poller)
    assert served(repository) == [1, 2]
    poll(poller)
    assert served(repository) == [1]


def test_older_version_takes_over_from_one_that_vanished(repository, loader, poller, root):
    clip = ModelDirectory(root, "clip", 1, 2)
    poll(poller, 2)
    shutil.rmtree(clip.path / "2")
    poll(poller, 2)

    assert states(repository) == [("1", READY, ""), ("2", *UNLOADED)]


def test_version_that_the_policy_no_longer_serves_is_unloaded(repository, poller, root):
    clip = ModelDirectory(root, "clip", 1, 2, config="version_policy { all {} }")
    poll(poller, 2)
    clip.configure("version_policy { specific { versions: 1 } }")
    poll(poller, 2)

    assert served(repository) == [1]


def test_model_that_vanished_is_unloaded_once_two_polls_saw_it(repository, loader, polled, clip):
    shutil.rmtree(clip.path)
    poll(polled)
    assert served(repository) == [1]
    poll(polled)
    assert states(repository) == []
    assert loader.servables[0].closed
    assert repository.every_model_is_ready()
    with pytest.raises(NotFoundError, match="'clip' is not found"):
        repository.find("clip", "")


def test_model_whose_last_version_vanished_is_unloaded(repository, polled, clip):
    shutil.rmtree(clip.path / "1")
    poll(polled, 3)

    assert states(repository) == []
    assert repository.every_model_is_ready()


def test_model_that_vanished_may_come_back(repository, loader, polled, clip, tmp_path):
    clip.path.rename(tmp_path / "aside")
    poll(polled, 2)
    (tmp_path / "aside").rename(clip.path)
    poll(polled, 2)

    assert states(repository) == [("1", READY, "")]
    assert loader.loads == [("clip", 1), ("clip", 1)]


@pytest.mark.parametrize("what", ["clip", "clip/1", "clip/1/saved_model.pb", "clip/config.pbtxt"])
def test_what_is_gone_for_a_moment_changes_nothing(repository, loader, polled, root, tmp_path, clip, what):
    for _ in range(3):
        (root / what).rename(tmp_path / "aside")
        poll(polled)
        (tmp_path / "aside").rename(root / what)
        poll(polled)

    assert served(repository) == [1]
    assert loader.loads == [("clip", 1)]


def test_place_that_is_gone_or_cannot_be_read_leaves_its_models(repository, loader, polled, root, tmp_path, clip):
    root.rename(tmp_path / "aside")
    poll(polled, 5)
    assert served(repository) == [1]
    root.write_text("no directory")
    poll(polled, 5)
    assert served(repository) == [1]
    root.unlink()
    (tmp_path / "aside").rename(root)
    poll(polled, 5)
    assert loader.loads == [("clip", 1)]
    assert states(repository) == [("1", READY, "")]


def test_failed_model_that_vanished_no_longer_keeps_the_server_from_being_ready(repository, loader, poller, clip):
    loader.failures[1] = LoadError("it is broken")
    poll(poller, 2)
    assert not repository.every_model_is_ready()
    shutil.rmtree(clip.path)
    poll(poller, 2)
    assert repository.every_model_is_ready()
    assert repository.every_version_is_ready()


def test_request_in_flight_finishes_although_its_version_vanished(repository, loader, poller, clip):
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    poll(poller, 2)
    running, _ = Serving(repository, is_ready=bool).submit(message(signature="store"))
    gate.wait_until_entered()
    shutil.rmtree(clip.path)
    poll(poller, 2)

    assert served(repository) == []
    assert not loader.servables[0].closed
    gate.opened.set()
    assert isinstance(running.wait(), InferResponse)


# What fails. -----------------------------------------------------------------------------------------------------


def test_version_that_fails_says_why_while_the_older_one_serves(repository, loader, polled, clip):
    loader.failures[2] = LoadError("variables are missing")
    clip.add(2)
    poll(polled, 2)

    assert states(repository) == [("1", READY, ""), ("2", "UNAVAILABLE", "variables are missing")]
    assert served(repository) == [1]
    assert repository.every_model_is_ready()


def test_failing_load_is_tried_again_after_growing_pauses(loader, polled, clip):
    loader.failures[2] = LoadError("variables are missing")
    clip.add(2)
    poll(polled)
    tries = []
    for index in range(140):
        before = len(loader.loads)
        poll(polled)
        tries += [index] * (len(loader.loads) - before)

    assert tries == [0, 1, 3, 7, 15, 31, 63, 95, 127]


def test_failing_load_is_not_repeated_where_what_serves_would_make_room_again(loader, root, clip):
    repository = Repository(loader, policy=ReloadPolicy.UNLOAD_FIRST)
    poller = RepositoryPoller(repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S)
    poll(poller, 2)
    loader.failures[2] = LoadError("variables are missing")
    clip.add(2)
    poll(poller, 20)
    assert loader.loads == [("clip", version) for version in (1, 2, 1)]
    loader.failures.clear()
    clip.touch(2)
    poll(poller, 2)
    assert served(repository) == [2]
    repository.close(WAIT_S)


def test_failing_load_is_tried_at_once_when_its_files_change(repository, loader, polled, clip):
    loader.failures[2] = LoadError("variables are missing")
    clip.add(2)
    poll(polled, 2 + 1 + 2 + 4 + 1)
    loader.failures.clear()
    clip.touch(2)
    poll(polled, 2)

    assert served(repository) == [2]


def test_failure_is_logged_once_until_it_changes(loader, polled, clip, caplog):
    caplog.set_level(logging.INFO, "service")
    loader.failures[2] = LoadError("variables are missing")
    clip.add(2)
    poll(polled, 20)
    loader.failures[2] = LoadError("variables are short")
    clip.touch(2)
    poll(polled, 20)

    assert [record.getMessage() for record in caplog.records] == [
        "model 'clip' version 2 is unavailable: variables are missing",
        "model 'clip' version 2 is unavailable: variables are short",
    ]


def test_place_that_cannot_be_read_is_logged_once(polled, root, tmp_path, caplog):
    root.rename(tmp_path / "aside")
    poll(polled, 20)

    assert len([record for record in caplog.records if record.levelname == "ERROR"]) == 1


def test_trouble_with_one_model_leaves_the_others_followed(monkeypatch, repository, polled, root, clip, caplog):
    ModelDirectory(root, "bert", 1)
    find = ModelPlaces.find

    def find_or_break(places, name):
        if name == "bert":
            raise RuntimeError("a defect")
        return find(places, name)

    monkeypatch.setattr(ModelPlaces, "find", find_or_break)
    clip.add(2)
    poll(polled, 2)

    assert served(repository) == [2]
    assert "unexpected error while polling model 'bert'" in caplog.text


# The thread. -----------------------------------------------------------------------------------------------------


class Ticks(threading.Event):
    """Time that passes when a test says so: each wait ends with a tick, or when the event is set."""

    def __init__(self):
        super().__init__()
        self.waits = []
        self._begun = threading.Semaphore(0)
        self._ticks = threading.Semaphore(0)

    def wait(self, timeout):
        self.waits.append(timeout)
        self._begun.release()
        assert self._ticks.acquire(timeout=WAIT_S)
        return self.is_set()

    def set(self):
        super().set()
        self._ticks.release()

    def tick(self):
        """Let the wait that has begun end, and return when the next has."""
        self._ticks.release()
        self.wait_until_begun()

    def wait_until_begun(self):
        assert self._begun.acquire(timeout=WAIT_S)


def test_thread_polls_at_every_interval_and_ends_at_once(repository, root, clip):
    ticks = Ticks()
    poller = RepositoryPoller(repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S, stopping=ticks)
    poller.start()
    ticks.wait_until_begun()
    assert repository.model_names() == []
    ticks.tick()
    ticks.tick()
    assert served(repository) == [1]
    poller.close()

    assert ticks.waits == [INTERVAL_S] * 3
    assert not any(thread.name == "model-poll" for thread in threading.enumerate())


def test_thread_goes_on_after_a_poll_that_went_wrong_as_a_whole(monkeypatch, repository, root, clip, caplog):
    places = ModelPlaces([root], [])
    ticks = Ticks()
    poller = RepositoryPoller(repository, places, INTERVAL_S, INTERVAL_S, stopping=ticks)
    poller.start()
    ticks.wait_until_begun()
    with monkeypatch.context() as broken:
        broken.setattr(places, "names", lambda: 1 // 0)
        ticks.tick()
    ticks.tick()
    ticks.tick()

    assert served(repository) == [1]
    assert "the next poll tries again" in caplog.text
    poller.close()


def test_thread_ends_in_the_midst_of_its_interval(repository, root):
    poller = RepositoryPoller(repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S)
    poller.start()
    poller.close()

    assert not any(thread.name == "model-poll" for thread in threading.enumerate())


def test_no_load_is_begun_after_the_stop(repository, loader, root):
    for name in ("bert", "clip"):
        ModelDirectory(root, name, 1)
    poller = RepositoryPoller(repository, ModelPlaces([root], []), INTERVAL_S, INTERVAL_S)
    poll(poller)
    loader.gate.clear()
    polling = threading.Thread(target=poller.poll)
    polling.start()
    loader.wait_until_begun()
    poller.stop()
    loader.gate.set()
    polling.join(WAIT_S)

    assert loader.loads == [("bert", 1)]


def test_poller_that_was_not_started_can_be_closed(poller):
    poller.close()
