"""Loads, reloads and unloads: who serves meanwhile, what is kept, what is let go."""

import threading
from pathlib import Path

import pytest

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError, NotFoundError, UnavailableError
from service.layouts import ModelSource
from service.load_plan import make_plan
from service.repository import Repository
from service.request import InferResponse
from service.settings import ReloadPolicy
from tests.service.loads import Loader, ModelDirectory, apply, states
from tests.service.serving import WAIT_S, Gate, Serving, kit, message
from tests.service.serving import repository as scripted

READY = "READY"
UNLOADED = ("UNAVAILABLE", "unloaded")


@pytest.fixture
def clip(tmp_path):
    return ModelDirectory(tmp_path, "clip", 1)


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def repository(loader):
    made = Repository(loader)
    yield made
    loader.gate.set()
    made.close(WAIT_S)


def serving_version(repository, version=""):
    return repository.find("clip", version).loaded


# Models. ---------------------------------------------------------------------------------------------------------


def test_two_models_of_one_name_are_refused():
    repo = scripted({"clip": {1: kit()}}, load=False)

    with pytest.raises(LoadError, match=r"two models are called 'clip'.*--model NAME=PATH"):
        repo.add(ModelSource("clip", {2: Path("/other/2")}))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_batch_size: many", "config.pbtxt:1:17"),
        ('backend: "onnxruntime"', 'asks for backend: "onnxruntime"'),
        ("version_policy { specific { versions: 7 } }", r"serves none of \[1\]"),
    ],
)
def test_model_whose_configuration_cannot_be_served_is_known_with_the_reason(tmp_path, text, problem):
    path = tmp_path / "config.pbtxt"
    path.write_text(text)
    repo = scripted({"clip": {1: kit()}}, config_path=path, load=False)

    (told,) = repo.load("clip")
    with pytest.raises(NotFoundError, match=problem):
        repo.find("clip", "")
    assert "config.pbtxt" in told or "model 'clip'" in told
    assert not repo.every_model_is_ready()


def test_source_with_a_problem_is_a_model_that_is_not_ready():
    repo = scripted({}, load=False)
    repo.add(ModelSource("clip", problem="two directories mean version 1"))

    assert repo.load("clip") == ["model 'clip': two directories mean version 1"]
    assert repo.model_names() == ["clip"]


def test_name_in_the_file_does_not_count_for_a_model_that_was_given_another(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text('name: "file" max_batch_size: 3')
    repo = scripted({"file": {1: kit()}}, config_path=path, load=False)
    repo.add(ModelSource("mine", {1: Path("/1")}, path, renamed=True))

    configs = repo.configurations()

    assert [(name, config.name, config.max_batch_size) for name, config in configs.items()] == [
        ("file", "file", 3),
        ("mine", "", 3),
    ]


def test_load_of_an_added_model_returns_what_went_wrong(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("version_policy { all {} }")
    models = {"clip": {1: LoadError("one"), 2: LoadError("two")}, "good": {1: kit()}}
    repo = scripted(models, config_path=path, load=False)

    assert repo.load("clip") == ["one", "two"]
    assert repo.load("good") == []
    assert not repo.every_model_is_ready()
    repo.close(WAIT_S)


# Loads. ----------------------------------------------------------------------------------------------------------


def test_load_makes_a_model_found_and_ready(repository, clip):
    assert apply(repository, clip) == {}

    assert repository.is_ready("clip", "1")
    assert states(repository) == [("1", READY, "")]


def test_load_of_what_is_loaded_and_unchanged_does_nothing(repository, loader, clip):
    apply(repository, clip)
    first = serving_version(repository)

    assert apply(repository, clip) == {}
    assert serving_version(repository) is first
    assert loader.loads == [("clip", 1)]


def test_load_of_changed_files_replaces_the_version_and_frees_the_old_one(repository, loader, clip):
    apply(repository, clip)
    first = serving_version(repository)
    clip.touch(1)

    assert apply(repository, clip) == {}
    assert serving_version(repository) is not first
    assert states(repository) == [("1", READY, "")]
    assert [servable.closed for servable in loader.servables] == [True, False]


def test_old_version_serves_until_the_new_one_is_ready(repository, loader, clip):
    apply(repository, clip)
    first = serving_version(repository)
    clip.touch(1)
    loader.gate.clear()
    load = threading.Thread(target=apply, args=(repository, clip))
    load.start()
    loader.wait_until_begun()
    loader.wait_until_begun()

    assert serving_version(repository) is first
    assert repository.index()[0].state == READY
    loader.gate.set()
    load.join(WAIT_S)
    assert serving_version(repository) is not first


def test_failed_reload_leaves_the_loaded_one_serving(repository, loader, clip):
    apply(repository, clip)
    first = serving_version(repository)
    clip.touch(1)
    loader.failures[1] = LoadError("it is broken")

    assert apply(repository, clip) == {1: "it is broken"}
    assert serving_version(repository) is first
    assert states(repository) == [("1", READY, "")]
    assert repository.every_model_is_ready()


def test_failed_reload_is_tried_again(repository, loader, clip):
    apply(repository, clip)
    clip.touch(1)
    loader.failures[1] = LoadError("it is broken")
    apply(repository, clip)
    loader.failures.clear()

    assert apply(repository, clip) == {}
    assert len(loader.loads) == 3


def test_failed_first_load_says_why_until_a_load_succeeds(repository, loader, clip):
    loader.failures[1] = LoadError("it is broken")

    assert apply(repository, clip) == {1: "it is broken"}
    assert states(repository) == [("1", "UNAVAILABLE", "it is broken")]
    assert not repository.every_model_is_ready()
    loader.failures.clear()
    assert apply(repository, clip) == {}
    assert repository.every_model_is_ready()


def test_defect_while_loading_is_a_failed_load(repository, loader, clip):
    loader.failures[1] = RuntimeError("surprise")

    assert apply(repository, clip) == {1: "unexpected RuntimeError: surprise"}
    assert states(repository) == [("1", "UNAVAILABLE", "unexpected RuntimeError: surprise")]


# Versions. -------------------------------------------------------------------------------------------------------


def test_new_version_takes_over_and_the_old_one_is_retired(repository, loader, clip):
    apply(repository, clip)
    clip.add(2)

    assert apply(repository, clip) == {}
    assert serving_version(repository).version == 2
    assert states(repository) == [("1", *UNLOADED), ("2", READY, "")]
    with pytest.raises(UnavailableError, match="'clip' version 1 is not at ready state"):
        repository.find("clip", "1")
    assert [servable.closed for servable in loader.servables] == [True, False]


def test_new_version_that_fails_retires_none(repository, loader, clip):
    apply(repository, clip)
    clip.add(2)
    loader.failures[2] = LoadError("it is broken")

    assert apply(repository, clip) == {2: "it is broken"}
    assert serving_version(repository).version == 1
    assert states(repository) == [("1", READY, ""), ("2", "UNAVAILABLE", "it is broken")]
    assert repository.every_model_is_ready()


def test_version_that_did_not_change_is_not_loaded_again(tmp_path, repository, loader):
    clip = ModelDirectory(tmp_path, "clip", 1, 2, config="version_policy { all {} }")
    apply(repository, clip)
    clip.add(3)
    clip.touch(2)
    apply(repository, clip)

    assert loader.loads == [("clip", version) for version in (1, 2, 2, 3)]
    assert [loaded.version for loaded in repository.ready_versions("clip")] == [1, 2, 3]


def test_version_shows_as_loading_beside_the_one_that_serves(repository, loader, clip):
    apply(repository, clip)
    loader.wait_until_begun()
    clip.add(2)
    loader.gate.clear()
    load = threading.Thread(target=apply, args=(repository, clip))
    load.start()
    loader.wait_until_begun()

    assert [(entry.version, entry.state) for entry in repository.index()] == [("1", READY), ("2", "LOADING")]
    assert repository.every_model_is_ready()
    assert not repository.every_version_is_ready()
    loader.gate.set()
    load.join(WAIT_S)


def test_versions_of_one_load_take_over_at_one_moment(tmp_path, repository, loader):
    clip = ModelDirectory(tmp_path, "clip", 1, 2, config="version_policy { all {} }")
    apply(repository, clip)
    before = repository.ready_versions("clip")
    for version in (1, 2):
        loader.wait_until_begun()
        clip.touch(version)
    loads = []
    loader.make = lambda: loads.append(repository.ready_versions("clip")) or kit()
    apply(repository, clip)

    assert loads == [before, before], "while each is loaded"
    assert not set(before) & set(repository.ready_versions("clip"))


# Unload first. ---------------------------------------------------------------------------------------------------


@pytest.fixture
def sparing(loader):
    """A repository that has no memory for two copies."""
    made = Repository(loader, policy=ReloadPolicy.UNLOAD_FIRST)
    yield made
    loader.gate.set()
    made.close(WAIT_S)


def test_version_is_unloaded_before_the_next_is_loaded(sparing, loader, clip):
    apply(sparing, clip)
    clip.add(2)
    open_at_load = []
    loader.make = lambda: open_at_load.append([not servable.closed for servable in loader.servables]) or kit()

    assert apply(sparing, clip) == {}
    assert open_at_load == [[False]]
    assert states(sparing) == [("1", *UNLOADED), ("2", READY, "")]


def test_requests_in_the_gap_are_told_to_come_again(sparing, loader, clip):
    apply(sparing, clip)
    loader.wait_until_begun()
    clip.touch(1)
    loader.gate.clear()
    load = threading.Thread(target=apply, args=(sparing, clip))
    load.start()
    loader.wait_until_begun()

    for ask in (lambda: sparing.find("clip", ""), lambda: sparing.find_ready("clip")):
        with pytest.raises(UnavailableError, match=r"model 'clip' is being reloaded: .* unloaded first"):
            ask()
    with pytest.raises(UnavailableError, match=r"version 1 is not at ready state \(LOADING\)"):
        sparing.find("clip", "1")
    assert not sparing.every_model_is_ready()
    loader.gate.set()
    load.join(WAIT_S)
    assert sparing.is_ready("clip", "1")
    assert sparing.every_model_is_ready()


def test_request_in_flight_finishes_before_its_version_makes_room(sparing, loader, clip):
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    apply(sparing, clip)
    loader.wait_until_begun()
    running, _ = Serving(sparing, is_ready=bool).submit(message(signature="store"))
    gate.wait_until_entered()
    clip.touch(1)
    load = threading.Thread(target=apply, args=(sparing, clip))
    load.start()

    assert not loader.begun.acquire(timeout=0.05)
    gate.opened.set()
    assert isinstance(running.wait(), InferResponse)
    load.join(WAIT_S)
    assert len(loader.loads) == 2


def test_what_made_room_comes_back_when_the_load_fails(sparing, loader, clip):
    clip.configure("version_policy { all {} }")
    clip.add(2)
    apply(sparing, clip)
    clip.configure("version_policy { specific { versions: [ 1, 3 ] } } max_batch_size: 3")
    clip.add(3)
    loader.failures[3] = LoadError("it is broken")

    assert apply(sparing, clip) == {3: "it is broken"}
    assert states(sparing) == [("1", READY, ""), ("2", READY, ""), ("3", "UNAVAILABLE", "it is broken")]
    assert sparing.every_model_is_ready()
    assert not sparing.may_repeat("clip")
    assert loader.loads == [("clip", version) for version in (1, 2, 1, 3, 2)]


def test_what_made_room_does_not_come_back_from_files_that_changed(sparing, loader, clip):
    apply(sparing, clip)
    clip.touch(1)
    loader.failures[1] = LoadError("it is broken")

    assert apply(sparing, clip) == {1: "it is broken"}
    assert states(sparing) == [("1", "UNAVAILABLE", "it is broken")]
    assert loader.loads == [("clip", 1)] * 2
    assert sparing.may_repeat("clip")


def test_files_of_what_made_room_are_held_until_it_is_back(sparing, loader, clip):
    files = Held()
    sparing.apply(make_plan(clip.source()), files)
    clip.add(2)
    loader.failures[2] = LoadError("it is broken")
    holders = []
    loader.make = lambda: holders.append(files.holders) or kit()
    apply(sparing, clip)

    assert holders == [1]
    assert files.holders == 1
    assert sparing.find("clip", "").loaded.version == 1


def test_unload_in_the_gap_lets_nothing_come_back(sparing, loader, clip):
    apply(sparing, clip)
    loader.wait_until_begun()
    clip.add(2)
    loader.gate.clear()
    loader.failures[2] = LoadError("it is broken")
    load = threading.Thread(target=apply, args=(sparing, clip))
    load.start()
    loader.wait_until_begun()
    sparing.unload("clip")
    loader.gate.set()
    load.join(WAIT_S)

    assert sparing.ready_versions("clip") == []
    assert loader.loads == [("clip", 1), ("clip", 2)]
    with pytest.raises(NotFoundError):
        sparing.find("clip", "")


def test_load_that_only_leaves_out_makes_no_room(tmp_path, sparing, loader):
    clip = ModelDirectory(tmp_path, "clip", 1, 2, config="version_policy { all {} }")
    apply(sparing, clip)
    second = sparing.find("clip", "2").loaded
    (clip.path / "1").rename(tmp_path / "gone")

    assert apply(sparing, clip) == {}
    assert sparing.ready_versions("clip") == [second]


# Requests. -------------------------------------------------------------------------------------------------------


def test_request_in_flight_finishes_on_the_version_that_it_found(repository, loader, clip):
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    apply(repository, clip)
    old = loader.servables[0]
    served = Serving(repository, is_ready=bool)
    running, _ = served.submit(message(signature="store"))
    gate.wait_until_entered()
    waiting, _ = served.submit(message(signature="store"))
    loader.make = kit
    clip.touch(1)
    apply(repository, clip)

    assert isinstance(served.send(message(signature="store")), InferResponse)
    assert not old.closed
    gate.opened.set()
    assert isinstance(running.wait(), InferResponse)
    assert isinstance(waiting.wait(), InferResponse)
    assert states(repository) == [("1", READY, "")]
    assert old.closed
    assert [len(old.runs), len(loader.servables[1].runs)] == [2, 1]


def test_request_that_found_a_version_just_before_it_was_replaced_is_served_by_the_next(repository, loader, clip):
    apply(repository, clip)
    old = serving_version(repository)
    served = Serving(repository, is_ready=bool)
    old.close(WAIT_S)  # as a retirement does, before the lookup of the request below is repeated
    clip.touch(1)
    lookups = []
    real = repository.find

    def find(name, version):
        if not lookups:
            lookups.append(real(name, version))
            apply(repository, clip)
            return lookups[0]
        return real(name, version)

    repository.find = find

    assert isinstance(served.send(message()), InferResponse)
    assert lookups[0].loaded is old


def test_statistics_start_at_zero_after_a_reload(repository, clip):
    apply(repository, clip)
    served = Serving(repository, is_ready=bool)
    served.send(message())
    assert served.statistics("clip").success.count == 1
    clip.touch(1)
    apply(repository, clip)

    assert served.statistics("clip").success.count == 0


# Unloads. --------------------------------------------------------------------------------------------------------


def test_unloaded_model_is_not_found_and_its_memory_goes(repository, loader, clip):
    apply(repository, clip)
    repository.unload("clip")

    with pytest.raises(NotFoundError, match=r"'clip' has no available versions"):
        repository.find("clip", "")
    with pytest.raises(UnavailableError, match=r"version 1 is not at ready state"):
        repository.find("clip", "1")
    assert states(repository) == [("1", *UNLOADED)]
    assert loader.servables[0].closed
    assert repository.every_model_is_ready()
    assert repository.every_version_is_ready()


def test_unload_finishes_what_was_taken(repository, loader, clip):
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    apply(repository, clip)
    served = Serving(repository, is_ready=bool)
    taken = [served.submit(message(signature="store"))[0] for _ in range(3)]
    gate.wait_until_entered()
    repository.unload("clip")

    assert repository.index()[0].state == "UNLOADING"
    assert isinstance(served.send(message()), NotFoundError)
    gate.opened.set()
    assert all(isinstance(answer.wait(), InferResponse) for answer in taken)
    assert states(repository) == [("1", *UNLOADED)]


def test_model_can_be_loaded_again_after_an_unload(repository, loader, clip):
    for _ in range(3):
        apply(repository, clip)
        assert repository.is_ready("clip", "")
        repository.unload("clip")
    apply(repository, clip)

    assert states(repository) == [("1", READY, "")]
    assert [servable.closed for servable in loader.servables] == [True, True, True, False]


def test_load_waits_for_the_memory_of_the_version_before(clip, loader):
    repository = Repository(loader, settle_s=WAIT_S)
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    apply(repository, clip)
    loader.wait_until_begun()
    Serving(repository, is_ready=bool).submit(message(signature="store"))
    gate.wait_until_entered()
    repository.unload("clip")
    load = threading.Thread(target=apply, args=(repository, clip))
    load.start()

    assert not loader.begun.acquire(timeout=0.05)
    gate.opened.set()
    load.join(WAIT_S)
    assert loader.begun.acquire(timeout=WAIT_S)
    repository.close(WAIT_S)


def test_load_waits_for_a_request_that_does_not_end_no_longer_than_it_must(clip, loader):
    repository = Repository(loader, settle_s=0.01)
    gate = Gate()
    loader.make = lambda: kit(store=gate)
    apply(repository, clip)
    Serving(repository, is_ready=bool).submit(message(signature="store"))
    gate.wait_until_entered()
    clip.touch(1)

    assert apply(repository, clip) == {}
    clip.touch(1)
    assert apply(repository, clip) == {}
    gate.opened.set()
    repository.close(WAIT_S)
    assert all(servable.closed for servable in loader.servables)


def test_unload_while_a_load_runs_leaves_the_model_unloaded(repository, loader, clip):
    loader.gate.clear()
    problems = []
    load = threading.Thread(target=lambda: problems.append(apply(repository, clip)))
    load.start()
    loader.wait_until_begun()
    repository.unload("clip")
    loader.gate.set()
    load.join(WAIT_S)

    assert problems == [{1: "unloaded"}]
    assert states(repository) == [("1", *UNLOADED)]
    assert loader.servables[0].closed
    assert repository.every_model_is_ready()


def test_failed_model_keeps_its_reason_when_it_is_unloaded_and_no_longer_counts(repository, loader, clip):
    loader.failures[1] = LoadError("it is broken")
    apply(repository, clip)
    repository.unload("clip")

    assert states(repository) == [("1", "UNAVAILABLE", "it is broken")]
    assert repository.every_model_is_ready()
    assert not repository.every_version_is_ready(), "Triton's rule still counts it"


def test_unload_of_an_unknown_model_leaves_no_trace(repository):
    repository.unload("nope")

    assert repository.index() == []
    assert repository.model_names() == []


# Configurations. -------------------------------------------------------------------------------------------------


def test_override_loads_the_model_anew_and_stays_with_unchanged_files(repository, loader, clip):
    apply(repository, clip)
    apply(repository, clip, ModelConfig(max_batch_size=2))
    assert serving_version(repository).config.model.max_batch_size == 2
    apply(repository, clip)

    assert serving_version(repository).config.model.max_batch_size == 2
    assert len(loader.loads) == 2
    clip.touch(1)
    apply(repository, clip)
    assert serving_version(repository).config.model.max_batch_size != 2


def test_override_ends_with_an_unload(repository, clip):
    apply(repository, clip, ModelConfig(max_batch_size=2))
    repository.unload("clip")
    apply(repository, clip)

    assert serving_version(repository).config.model.max_batch_size != 2


def test_override_that_fails_leaves_the_one_before_in_force(repository, loader, clip):
    apply(repository, clip, ModelConfig(max_batch_size=2))
    loader.failures[1] = LoadError("it does not fit")
    apply(repository, clip, ModelConfig(max_batch_size=3))
    loader.failures.clear()

    assert apply(repository, clip) == {}
    assert serving_version(repository).config.model.max_batch_size == 2


def test_model_that_cannot_be_planned_is_told_and_counts(repository, clip):
    repository.refuse("clip", "config.pbtxt is nonsense")

    assert states(repository) == [("", "UNAVAILABLE", "config.pbtxt is nonsense")]
    assert not repository.every_model_is_ready()
    apply(repository, clip)
    assert states(repository) == [("1", READY, "")]
    repository.refuse("clip", "config.pbtxt is nonsense")
    assert states(repository) == [("1", READY, "")]


# Files. ----------------------------------------------------------------------------------------------------------


class Held:
    """Files that a load brings: how many hold them."""

    def __init__(self):
        self.holders = 0

    def __enter__(self):
        self.holders += 1

    def __exit__(self, *error):
        self.holders -= 1


def test_files_of_a_load_are_held_by_each_version_until_it_is_closed(repository, clip):
    clip.add(2)
    clip.configure("version_policy { all {} }")
    files = Held()
    repository.apply(make_plan(clip.source()), files)
    assert files.holders == 2
    (clip.path / "1").rename(clip.path / "gone")
    apply(repository, clip)
    states(repository)
    assert files.holders == 1
    repository.unload("clip")
    states(repository)

    assert files.holders == 0


def test_files_of_a_load_that_fails_are_held_by_nobody(repository, loader, clip):
    files = Held()
    loader.failures[1] = LoadError("it is broken")
    repository.apply(make_plan(clip.source()), files)

    assert files.holders == 0


# Telling. --------------------------------------------------------------------------------------------------------


def test_every_change_is_told(loader, clip):
    told = []
    repository = Repository(loader, on_change=lambda name: told.append((name, repository.is_ready(name, ""))))
    apply(repository, clip)
    repository.unload("clip")
    loader.failures[1] = LoadError("it is broken")
    apply(repository, clip)

    assert told[0] == ("clip", True)
    assert told[-1] == ("clip", False)
    assert ("clip", False) in told[1:-1]
    repository.close(WAIT_S)


def errors_of(repository, clip, caplog):
    caplog.clear()
    apply(repository, clip)
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


def test_failure_is_logged_when_it_is_news(repository, loader, clip, caplog):
    loader.failures[1] = LoadError("it is broken")
    told = ["model 'clip' version 1 is unavailable: it is broken"]
    assert errors_of(repository, clip, caplog) == told
    assert errors_of(repository, clip, caplog) == []
    loader.failures[1] = LoadError("otherwise")
    assert errors_of(repository, clip, caplog) == ["model 'clip' version 1 is unavailable: otherwise"]
    loader.failures.clear()
    assert errors_of(repository, clip, caplog) == []
    clip.touch(1)
    loader.failures[1] = LoadError("otherwise")
    assert errors_of(repository, clip, caplog) == [
        "model 'clip' version 1 was not reloaded, the one before is still served: otherwise"
    ]
    assert errors_of(repository, clip, caplog) == []


def test_refusal_is_logged_when_it_is_news(repository, clip, caplog):
    for problem in ("nonsense", "nonsense", "more nonsense"):
        repository.refuse("clip", problem)
    apply(repository, clip)
    repository.refuse("clip", "more nonsense")

    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == [
        "nonsense", "more nonsense", "more nonsense"
    ]  # fmt: skip


def test_lookups_and_lists_hold_while_models_come_and_go(tmp_path, loader):
    repository = Repository(loader)
    models = [ModelDirectory(tmp_path, f"m{index}", 1) for index in range(20)]
    done = threading.Event()
    faults = []

    def look():
        while not done.is_set():
            try:
                repository.index()
                repository.every_model_is_ready()
                for name in repository.model_names():
                    repository.ready_versions(name)
                    repository.is_ready(name, "1")
            except Exception as error:  # noqa: BLE001 - any is a fault
                faults.append(error)
                return

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for looker in lookers:
        looker.start()
    for model in models:
        apply(repository, model)
        model.touch(1)
        apply(repository, model)
        repository.unload(model.name)
    done.set()
    for looker in lookers:
        looker.join(WAIT_S)
    repository.close(WAIT_S)

    assert faults == []
    assert {(entry.state, entry.reason) for entry in repository.index()} == {UNLOADED}
