"""What callers may load and unload, under which names, in which order, and what they are told."""

import json
from concurrent.futures import CancelledError

import pytest

from service.catalog import IndexEntry
from service.errors import InternalError, InvalidArgumentError, LoadError, UnavailableError
from service.model_control import ModelControl
from service.model_places import ModelPlaces
from service.repository import Repository
from service.settings import ControlMode
from service.uploads import Uploads
from tests.service.loads import Loader, ModelDirectory
from tests.service.serving import WAIT_S

NOT_POLLED = "failed to load '{}', failed to poll from model repository"


@pytest.fixture
def loader():
    return Loader()


@pytest.fixture
def uploads(tmp_path_factory, monkeypatch):
    """Files of callers; they must all be gone when everything is closed."""
    directory = tmp_path_factory.mktemp("uploads")
    monkeypatch.setattr("tempfile.tempdir", str(directory))
    made = Uploads()
    made.files = lambda: sorted(path.name for path in directory.rglob("*") if path.is_file())
    yield made
    assert made.files() == []
    made.close()


@pytest.fixture
def control(tmp_path, loader, uploads):
    """Explicit control of a repository that holds ``clip`` and ``bert``."""
    for name in ("clip", "bert"):
        ModelDirectory(tmp_path, name, 1)
    repository = Repository(loader)
    made = ModelControl(repository, ModelPlaces([tmp_path], []), ControlMode.EXPLICIT, uploads)
    made.repository = repository
    yield made
    loader.gate.set()
    made.close()
    repository.close(WAIT_S)


def load(control, name, config=None, files=None):
    return control.load(name, config, files).result(WAIT_S)


def index(control):
    return control.index().result(WAIT_S)


# Loads. ----------------------------------------------------------------------------------------------------------


def test_model_that_is_loaded_is_ready(control):
    load(control, "clip")

    assert control.repository.is_ready("clip", "")


def test_model_that_is_nowhere_is_told_in_tritons_words(control):
    with pytest.raises(InternalError) as caught:
        load(control, "nope")

    assert str(caught.value) == NOT_POLLED.format("nope")
    assert control.repository.model_names() == []
    assert control.repository.every_model_is_ready()


@pytest.mark.parametrize("name", ["", "/", "../clip", "a/b", "a\\b", "clip/", "a\0b", ".", ".."])
def test_name_that_could_be_a_path_is_refused(control, name):
    with pytest.raises(InvalidArgumentError, match="failed to load"):
        control.load(name)


@pytest.mark.parametrize("name", [".hidden", "x" * 255, "x" * 256, "x" * 100_000, "é" * 200, "new\nline", "clip "])
def test_odd_name_is_merely_not_there(control, name):
    with pytest.raises(InternalError, match="failed to poll from model repository"):
        load(control, name)


def test_names_that_callers_make_up_leave_nothing_in_the_index(control):
    for number in range(50):
        name = f"made-up-{number}"
        with pytest.raises(InternalError, match="failed to poll from model repository"):
            load(control, name)
        control.unload(name)

    assert index(control) == [IndexEntry("bert"), IndexEntry("clip")]
    assert control.repository.index() == []


@pytest.mark.parametrize("is_loaded", [True, False])
def test_name_of_a_signature_is_refused(control, is_loaded):
    if is_loaded:
        load(control, "clip")

    with pytest.raises(InvalidArgumentError, match="'clip:embed' names a signature of model 'clip'"):
        load(control, "clip:embed")


def test_model_whose_name_has_a_colon_is_loaded(control, tmp_path):
    ModelDirectory(tmp_path, "clip:embed", 1)
    load(control, "clip:embed")

    assert control.repository.ready_versions("clip:embed")[0].name == "clip:embed"


def test_failed_load_tells_version_state_and_reason(control, loader):
    loader.failures[1] = LoadError("it is broken")

    with pytest.raises(LoadError) as caught:
        load(control, "clip")

    assert str(caught.value) == "load failed for model 'clip': version 1 is at UNAVAILABLE state: it is broken;"


def test_model_whose_files_cannot_be_understood_is_told_and_counts(control, tmp_path):
    (tmp_path / "clip" / "config.pbtxt").write_text("max_batch_size: many")

    with pytest.raises(LoadError, match=r"load failed for model 'clip': .*config.pbtxt:1:17"):
        load(control, "clip")
    assert not control.repository.every_model_is_ready()
    assert "config.pbtxt" in index(control)[1].reason


def test_same_model_is_loaded_once_by_many_who_ask_at_once(control, loader):
    loader.gate.clear()
    futures = [control.load("clip") for _ in range(8)]
    loader.gate.set()

    assert [future.result(WAIT_S) for future in futures] == [None] * 8
    assert loader.loads == [("clip", 1)]


def test_loads_are_done_in_the_order_in_which_they_were_asked_for(control, loader):
    loader.gate.clear()
    futures = [control.load(name) for name in ("clip", "bert")]
    loader.wait_until_begun()
    assert loader.loads == [("clip", 1)]
    loader.gate.set()
    for future in futures:
        future.result(WAIT_S)

    assert loader.loads == [("clip", 1), ("bert", 1)]


def test_load_whose_caller_left_before_its_turn_is_not_done(control, loader):
    loader.gate.clear()
    first = control.load("clip")
    loader.wait_until_begun()
    second = control.load("bert")
    assert second.cancel()
    loader.gate.set()
    first.result(WAIT_S)

    with pytest.raises(CancelledError):
        second.result(WAIT_S)
    assert index(control)[0] == IndexEntry("bert")


# Configurations. -------------------------------------------------------------------------------------------------


def max_batch_size(control):
    (loaded,) = control.repository.ready_versions("clip")
    return loaded.config.model.max_batch_size


def test_configuration_of_a_caller_takes_the_place_of_the_file(control):
    load(control, "clip", '{"max_batch_size": "16"}')
    assert max_batch_size(control) == 16
    load(control, "clip", json.dumps({"name": "clip", "maxBatchSize": 8}))
    assert max_batch_size(control) == 8
    load(control, "clip")
    assert max_batch_size(control) == 8


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{nope",
        "[1]",
        "null",
        "7",
        '{"no_such_field": 1}',
        '{"max_batch_size": "many"}',
        '{"name": "bert"}',
        "[" * 100_000,
    ],
)
def test_configuration_that_is_none_is_refused_and_changes_nothing(control, text):
    load(control, "clip", '{"max_batch_size": 16}')

    with pytest.raises(InternalError, match=NOT_POLLED.format("clip")):
        load(control, "clip", text)
    assert max_batch_size(control) == 16
    assert control.repository.is_ready("clip", "")


def test_configuration_that_asks_in_vain_is_refused_and_does_not_count(control):
    with pytest.raises(LoadError, match=r"load failed for model 'clip': .*zzz"):
        load(control, "clip", '{"backend": "zzz"}')

    assert control.repository.every_model_is_ready()
    assert index(control) == [IndexEntry("bert"), IndexEntry("clip")]


# Files. ----------------------------------------------------------------------------------------------------------

FILES = {"3/saved_model.pb": b"graph", "3/variables/variables.index": b"index"}


def versions(control, name="clip"):
    control.repository._retirements.wait(name, WAIT_S)
    return [loaded.version for loaded in control.repository.ready_versions(name)]


def test_files_and_configuration_make_the_model(control, uploads):
    load(control, "clip", '{"max_batch_size": 16}', FILES)

    assert versions(control) == [3]
    assert max_batch_size(control) == 16
    assert uploads.files() == ["saved_model.pb", "variables.index"]


def test_files_stay_while_the_version_made_of_them_serves(control, uploads):
    load(control, "clip", "{}", FILES)
    load(control, "clip", "{}", {"4/saved_model.pb": b"graph"})
    assert versions(control) == [4]
    assert uploads.files() == ["saved_model.pb"]
    control.unload("clip")
    assert versions(control) == []
    assert uploads.files() == []


def test_load_without_files_takes_the_model_from_its_place_again(control, uploads):
    load(control, "clip", '{"max_batch_size": 16}', FILES)
    load(control, "clip")

    assert versions(control) == [1]
    assert max_batch_size(control) != 16
    assert uploads.files() == []


def test_model_that_is_in_no_place_can_be_brought(control):
    load(control, "new", "{}", FILES)
    assert versions(control, "new") == [3]
    with pytest.raises(InternalError, match=NOT_POLLED.format("new")):
        load(control, "new")
    assert versions(control, "new") == [3]


def test_files_of_a_load_that_fails_are_removed_and_what_served_goes_on(control, loader, uploads):
    load(control, "clip")
    loader.failures[3] = LoadError("it is broken")

    with pytest.raises(LoadError, match="version 3 is at UNAVAILABLE state: it is broken"):
        load(control, "clip", "{}", FILES)
    assert uploads.files() == []
    assert versions(control) == [1]


@pytest.mark.parametrize("files", [{"1/a": b"", "01/a": b""}, FILES])
def test_files_of_a_load_that_asks_in_vain_are_removed(control, uploads, files):
    with pytest.raises(LoadError, match="load failed for model 'clip'"):
        load(control, "clip", '{"version_policy": {"specific": {"versions": [9]}}}', files)
    assert uploads.files() == []


def test_files_need_a_configuration(control, loader):
    with pytest.raises(InvalidArgumentError, match="needs the parameter 'config'"):
        control.load("clip", None, FILES)
    assert loader.loads == []


@pytest.mark.parametrize("path", ["../x", "/x", "1", "labels.txt", ""])
def test_files_that_lie_elsewhere_are_refused(control, loader, path):
    with pytest.raises(InvalidArgumentError, match="cannot be part of a model"):
        control.load("clip", "{}", {**FILES, path: b""})
    assert loader.loads == []


def test_files_of_a_model_with_a_name_that_no_directory_could_have_are_refused(control, loader):
    with pytest.raises(InvalidArgumentError, match="more than 255 bytes"):
        control.load("\N{LATIN SMALL LETTER E WITH ACUTE}" * 128, "{}", FILES)

    assert loader.loads == []


def test_files_for_a_signature_are_refused(control, uploads):
    with pytest.raises(InvalidArgumentError, match="'clip:embed' names a signature"):
        load(control, "clip:embed", "{}", FILES)
    assert uploads.files() == []


def test_files_that_cannot_be_written_are_told(control, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "nope"))

    with pytest.raises(InternalError, match="its files cannot be written: No such file or directory"):
        load(control, "clip", "{}", FILES)


# Unloads. --------------------------------------------------------------------------------------------------------


def test_unloaded_model_is_not_ready_at_once(control):
    load(control, "clip")
    control.unload("clip")

    assert not control.repository.is_ready("clip", "")


@pytest.mark.parametrize("name", ["clip", "nope", "", "../clip", "x" * 256])
def test_unload_of_what_is_not_loaded_is_no_error(control, name):
    control.unload(name)

    assert index(control) == [IndexEntry("bert"), IndexEntry("clip")]


def test_unload_of_a_signature_is_refused(control):
    load(control, "clip")

    with pytest.raises(InvalidArgumentError, match="'clip:embed' names a signature of model 'clip'"):
        control.unload("clip:embed")
    assert control.repository.is_ready("clip", "")


def test_unload_while_a_load_runs_fails_the_load(control, loader):
    loader.gate.clear()
    loading = control.load("clip")
    loader.wait_until_begun()
    control.unload("clip")
    loader.gate.set()

    with pytest.raises(LoadError, match="version 1 is at UNAVAILABLE state: unloaded"):
        loading.result(WAIT_S)
    assert not control.repository.is_ready("clip", "")


# The index. ------------------------------------------------------------------------------------------------------


def test_index_has_loaded_versions_and_names_of_what_could_be_loaded(control):
    load(control, "clip")

    assert index(control) == [IndexEntry("bert"), IndexEntry("clip", "1", "READY")]


def test_index_is_answered_while_a_load_runs(control, loader):
    loader.gate.clear()
    control.load("clip")
    loader.wait_until_begun()

    assert index(control) == [IndexEntry("bert"), IndexEntry("clip", "1", "LOADING")]


# Modes. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [ControlMode.NONE, ControlMode.POLL])
def test_other_modes_refuse_loads_and_unloads_of_anything_and_list_what_is_loaded(tmp_path, loader, mode):
    ModelDirectory(tmp_path, "clip", 1)
    ModelDirectory(tmp_path, "bert", 1)
    repository = Repository(loader)
    places = ModelPlaces([tmp_path], [])
    repository.add(places.find("clip"))
    repository.load("clip")
    control = ModelControl(repository, places, mode)

    for change in (control.load, control.unload):
        for name in ("clip", "nope", "", "a/b", "clip:embed"):
            with pytest.raises(UnavailableError, match="explicit model load / unload is not allowed if polling is"):
                change(name)
    assert index(control) == [IndexEntry("clip", "1", "READY")]
    control.close()
    repository.close(WAIT_S)
