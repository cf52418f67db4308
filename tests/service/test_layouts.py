import logging
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from service.errors import LoadError
from service.layouts import (
    ModelSource,
    find_model,
    find_models,
    is_saved_model,
    model_directory,
    saved_model_directory,
)

NOBODY = 65534


@pytest.fixture(autouse=True)
def _hear_warnings(caplog):
    caplog.set_level(logging.WARNING, "service")


def make(root, *paths):
    """Make files, and directories for paths that end with a slash."""
    for path in paths:
        target = root / path
        (target if path.endswith("/") else target.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            target.touch()
    return root


def served(path):
    """Return each model with its versions, relative to the path."""
    return {
        source.name: {number: str(directory.relative_to(path)) for number, directory in source.versions.items()}
        for source in find_models(path)
    }


# What people have, and the models and versions that it means.
@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (["saved_model.pb", "variables/variables.index"], {"root": {1: "."}}),
        (["saved_model.pbtxt"], {"root": {1: "."}}),
        (["saved_model.pb", "7/saved_model.pb"], {"root": {1: "."}}),
        (["7/saved_model.pb"], {"root": {7: "7"}}),
        (["7/saved_model.pb", "10/saved_model.pb", "9/saved_model.pb"], {"root": {7: "7", 9: "9", 10: "10"}}),
        (["00000123/saved_model.pb"], {"root": {123: "00000123"}}),
        (["0/saved_model.pb"], {"root": {0: "0"}}),
        (["1700000000000000000/saved_model.pb"], {"root": {1700000000000000000: "1700000000000000000"}}),
        (["7/model.savedmodel/saved_model.pb", "config.pbtxt"], {"root": {7: "7"}}),
        (["clip/7/saved_model.pb", "bert/2/saved_model.pb"], {"bert": {2: "bert/2"}, "clip": {7: "clip/7"}}),
        (["clip/7/model.savedmodel/saved_model.pb", "clip/config.pbtxt"], {"clip": {7: "clip/7"}}),
        (["clip/saved_model.pb", "bert/2/saved_model.pb"], {"bert": {2: "bert/2"}, "clip": {1: "clip"}}),
        (["clip/7/saved_model.pb", "clip/3", "clip/labels.txt", "README.md"], {"clip": {7: "clip/7"}}),
        (
            ["onnx/1/model.onnx", "onnx/config.pbtxt", "clip/7/saved_model.pb"],
            {"clip": {7: "clip/7"}, "onnx": {1: "onnx/1"}},
        ),
        (["clip/7/saved_model.pb", ".git/1/saved_model.pb", "lost+found/"], {"clip": {7: "clip/7"}}),
        (["clip/7/saved_model.pb", "clip/.8/saved_model.pb"], {"clip": {7: "clip/7"}}),
        (["clip.v2:a/7/saved_model.pb"], {"clip.v2:a": {7: "clip.v2:a/7"}}),
    ],
)
def test_a_layout_is_recognised(tmp_path, paths, expected):
    root = make(tmp_path / "root", *paths)

    assert served(root) == expected
    assert list(served(root)) == sorted(expected)


def test_the_configuration_lies_beside_the_versions(tmp_path):
    make(tmp_path, "clip/7/saved_model.pb", "clip/config.pbtxt", "bert/2/saved_model.pb", "bare/saved_model.pb")
    make(tmp_path, "bare/config.pbtxt")

    assert {source.name: source.config_path for source in find_models(tmp_path)} == {
        "bare": tmp_path / "bare/config.pbtxt",
        "bert": None,
        "clip": tmp_path / "clip/config.pbtxt",
    }


@pytest.mark.parametrize(
    "names", [["7", "007"], ["0", "00"], ["5", "01", "1"]], ids=["padded", "zero", "beside_another"]
)
def test_two_directories_of_one_version_are_a_problem_that_names_both(tmp_path, names):
    make(tmp_path, *[f"clip/{name}/saved_model.pb" for name in names], "bert/1/saved_model.pb")

    bert, clip = find_models(tmp_path)

    assert (bert.problem, clip.versions) == (None, {})
    first, second = sorted(names)[:2]
    assert clip.problem == f"{tmp_path}/clip/{first} and {tmp_path}/clip/{second} mean the same version"


def test_a_configuration_without_versions_is_a_problem_of_that_model_alone(tmp_path):
    make(tmp_path, "clip/7/saved_model.pb", "empty/config.pbtxt")

    clip, empty = find_models(tmp_path)

    assert clip.problem is None
    assert empty == ModelSource(
        "empty", {}, tmp_path / "empty/config.pbtxt", f"{tmp_path}/empty: no version directory", is_empty=True
    )


@pytest.mark.parametrize(
    "name",
    ["1a", "1.0", "9223372036854775808", "9" * 200, "\u0661", "v1", "+1", "1 "],
    ids=["letter", "point", "2^63", "200_digits", "arabic", "v", "sign", "blank"],
)
def test_a_directory_that_is_no_version_is_ignored_with_one_warning(tmp_path, name, caplog):
    make(tmp_path, f"clip/{name}/saved_model.pb", "clip/7/saved_model.pb")

    assert served(tmp_path) == {"clip": {7: "clip/7"}}
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}/clip: ignored, no versions: {name!r}"]


def test_a_file_with_a_versions_name_is_ignored_with_one_warning(tmp_path, caplog):
    make(tmp_path, "3", "7/saved_model.pb")

    assert served(tmp_path) == {tmp_path.name: {7: "7"}}
    assert [record.getMessage() for record in caplog.records] == [f"{tmp_path}: ignored, no versions: '3'"]


def test_the_same_is_warned_of_once_however_often_it_is_seen(tmp_path, caplog):
    make(tmp_path, "clip/7/saved_model.pb", "clip/7b/saved_model.pb", "README")
    for _ in range(3):
        find_models(tmp_path)

    assert len(caplog.records) == 2


def test_files_that_belong_to_a_model_are_no_reason_to_warn(tmp_path, caplog):
    make(tmp_path, "clip/7/saved_model.pb", "clip/config.pbtxt", "clip/labels.txt", "clip/configs/a.pbtxt", "clip/.x/")

    find_models(tmp_path)

    assert caplog.records == []


def test_what_is_no_model_in_a_repository_is_named_in_one_warning(tmp_path, caplog):
    make(tmp_path, "clip/7/saved_model.pb", "README.md", "notes/todo.txt", ".hidden/")

    find_models(tmp_path)

    assert [record.getMessage() for record in caplog.records] == [
        f"{tmp_path}: ignored, no models: 'README.md', 'notes'"
    ]


def test_a_kubernetes_volume_is_read_through_its_links_and_once(tmp_path):
    make(tmp_path, "..2024_01_01/clip/7/saved_model.pb", "..2024_01_01/clip/config.pbtxt")
    (tmp_path / "..data").symlink_to("..2024_01_01")
    (tmp_path / "clip").symlink_to("..data/clip")

    (source,) = find_models(tmp_path)

    assert source == ModelSource("clip", {7: tmp_path / "clip/7"}, tmp_path / "clip/config.pbtxt")


def test_a_kubernetes_volume_of_versions_is_read_through_its_links(tmp_path):
    make(tmp_path, "clip/..2024_01_01/7/saved_model.pb")
    (tmp_path / "clip/..data").symlink_to("..2024_01_01")
    (tmp_path / "clip/7").symlink_to("..data/7")

    assert served(tmp_path / "clip") == {"clip": {7: "7"}}


def test_a_link_gives_the_model_its_own_name(tmp_path):
    make(tmp_path, "exports/2024-01-01/saved_model.pb")
    (tmp_path / "clip").symlink_to("exports/2024-01-01")

    assert served(tmp_path / "clip") == {"clip": {1: "."}}


@pytest.mark.parametrize("target", ["nowhere", "broken"], ids=["dangling", "loop"])
def test_a_broken_link_is_ignored(tmp_path, target):
    make(tmp_path, "clip/7/saved_model.pb")
    (tmp_path / "broken").symlink_to(target)
    (tmp_path / "clip/8").symlink_to(f"../{target}")

    assert served(tmp_path) == {"clip": {7: "clip/7"}}


@pytest.mark.parametrize(
    ("path", "name"), [(".", "clip"), ("", "clip"), ("..", "models"), ("../clip", "clip"), ("7/..", "clip")]
)
def test_a_relative_path_names_the_model_after_the_directory(tmp_path, monkeypatch, path, name):
    make(tmp_path, "models/clip/saved_model.pb", "models/clip/7/", "models/saved_model.pb")
    monkeypatch.chdir(tmp_path / "models/clip")

    assert [source.name for source in find_models(Path(path))] == [name]


def test_a_missing_path_is_a_load_error(tmp_path):
    with pytest.raises(LoadError, match="missing: no such directory"):
        find_models(tmp_path / "missing")


def test_a_path_that_ends_in_a_broken_link_is_a_load_error(tmp_path):
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(LoadError, match="loop: no such directory"):
        find_models(tmp_path / "loop")


def test_a_file_is_a_load_error_that_says_what_was_expected(tmp_path):
    make(tmp_path, "saved_model.pb")

    with pytest.raises(LoadError, match=r"saved_model\.pb: is a file; expected the directory of a SavedModel"):
        find_models(tmp_path / "saved_model.pb")


def test_a_path_below_a_file_is_a_load_error(tmp_path):
    make(tmp_path, "file")

    with pytest.raises(LoadError, match="no such directory"):
        find_models(tmp_path / "file/model")


@pytest.mark.parametrize("paths", [["./"], ["a/b/c.txt"], ["3"], [".hidden/1/saved_model.pb"]])
def test_a_directory_without_a_model_is_a_load_error_that_says_what_was_looked_for(tmp_path, paths):
    make(tmp_path, *paths)

    with pytest.raises(LoadError, match=r"no model found: it holds neither saved_model\.pb, nor"):
        find_models(tmp_path)


def test_a_path_that_the_system_refuses_is_a_load_error():
    with pytest.raises(LoadError, match="cannot be read: File name too long"):
        find_models(Path("x" * 5000))


@pytest.fixture
def readable_root():
    """A directory that other users can read, which pytest's own are not."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture
def without_rights(readable_root):
    """Takes all rights from the given paths and goes on as a user whom that stops; root it would not."""
    taken, was_root = [], os.geteuid() == 0

    def take(*paths):
        for path in paths:
            taken.append(readable_root / path)
            taken[-1].chmod(0)
        if was_root:
            os.seteuid(NOBODY)

    yield take
    if was_root:
        os.seteuid(0)
    for path in taken:
        path.chmod(0o755)


@pytest.mark.parametrize(
    ("taken", "path"), [("models", "models"), ("models", "models/clip"), ("models/clip", "models/clip")]
)
def test_a_path_that_may_not_be_read_is_a_load_error(readable_root, without_rights, taken, path):
    make(readable_root, "models/clip/7/saved_model.pb")
    without_rights(taken)

    with pytest.raises(LoadError, match="cannot be read: Permission denied"):
        find_models(readable_root / path)


def test_a_model_that_may_not_be_read_leaves_its_neighbours_alone(readable_root, without_rights):
    make(readable_root, "clip/7/saved_model.pb", "secret/1/saved_model.pb", "lost+found/")
    without_rights("secret", "lost+found")

    clip, secret = find_models(readable_root)

    assert (clip.name, clip.problem) == ("clip", None)
    assert secret == ModelSource("secret", problem=f"{readable_root}/secret: cannot be read: Permission denied")


def test_a_version_that_may_not_be_read_is_a_load_error(readable_root, without_rights):
    make(readable_root, "7/saved_model.pb")
    without_rights("7")

    with pytest.raises(LoadError, match="7: cannot be read: Permission denied"):
        saved_model_directory(readable_root / "7", "model.savedmodel")


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["saved_model.pb"], "."),
        (["model.savedmodel/saved_model.pb"], "model.savedmodel"),
        (["model.savedmodel/saved_model.pbtxt", "saved_model.pb"], "model.savedmodel"),
    ],
    ids=["tensorflow_serving", "triton", "both"],
)
def test_the_saved_model_of_a_version_is_found_in_either_place(tmp_path, paths, found):
    make(tmp_path, *paths)

    assert saved_model_directory(tmp_path, "model.savedmodel") == tmp_path / found


def test_the_saved_model_may_have_another_name(tmp_path):
    make(tmp_path, "export/saved_model.pb")

    assert saved_model_directory(tmp_path, "export") == tmp_path / "export"


@pytest.mark.parametrize("name", ["../other", "sub/../../other", "{}/other"])
def test_the_saved_model_lies_in_its_version(tmp_path, name):
    make(tmp_path, "other/saved_model.pb", "7/sub/", "7/saved_model.pb")
    name = name.format(tmp_path)

    with pytest.raises(LoadError, match=r"default_model_filename '.*other' must lie in .*7"):
        saved_model_directory(tmp_path / "7", name)


@pytest.mark.parametrize("paths", [["model.onnx"], ["model.savedmodel/"], ["other/saved_model.pb"]])
def test_a_version_of_another_backend_is_a_load_error_that_names_what_was_looked_for(tmp_path, paths):
    make(tmp_path, *paths)

    with pytest.raises(LoadError, match=r"neither saved_model\.pb nor model\.savedmodel/saved_model\.pb is there"):
        saved_model_directory(tmp_path, "model.savedmodel")


def test_what_has_the_name_of_a_graph_counts_and_the_load_tells_when_it_is_no_file(tmp_path):
    make(tmp_path, "a/saved_model.pb", "b/saved_model.pb/", "c/")

    assert [is_saved_model(tmp_path / name) for name in "abcd"] == [True, True, False, False]


def test_one_model_takes_the_name_it_is_given(tmp_path):
    make(tmp_path, "clip/7/saved_model.pb")

    assert find_model(tmp_path / "clip", "other") == ModelSource("other", {7: tmp_path / "clip/7"})


def test_a_directory_of_models_is_no_model(tmp_path):
    make(tmp_path, "clip/7/saved_model.pb")

    assert find_model(tmp_path, "models") is None


def test_a_models_directory_is_above_its_versions():
    assert model_directory(Path("models/clip/7")) == Path("models/clip")


def test_a_bare_savedmodel_is_its_models_directory_whatever_its_name(tmp_path):
    make(tmp_path, "export/saved_model.pb", "7/saved_model.pb", "7/config.pbtxt")

    assert [model_directory(tmp_path / name) for name in ("export", "7")] == [tmp_path / "export", tmp_path / "7"]


@pytest.mark.parametrize(
    ("paths", "chosen"),
    [
        (["config.pbtxt", "configs/canary.pbtxt", "configs/other.pbtxt"], "configs/canary.pbtxt"),
        (["configs/canary.pbtxt"], "configs/canary.pbtxt"),
        (["config.pbtxt", "configs/other.pbtxt"], "config.pbtxt"),
        (["config.pbtxt", "configs/canary.pbtxt/"], "config.pbtxt"),
    ],
)
def test_named_configuration_goes_before_the_usual_one_where_it_is_there(tmp_path, paths, chosen):
    make(tmp_path, "clip/7/saved_model.pb", *(f"clip/{path}" for path in paths))
    (source,) = find_models(tmp_path, "canary")

    assert source.config_path == tmp_path / "clip" / chosen
