"""A plan says which versions a load brings, from what, and which configuration is in force."""

import os

import pytest

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError
from service.layouts import find_model
from service.load_plan import make_plan


@pytest.fixture
def directory(tmp_path):
    for version in ("1", "2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").touch()
    (tmp_path / "config.pbtxt").write_text("max_batch_size: 4 version_policy { all {} }")
    return tmp_path


def plan(directory, override=None, previous=None):
    return make_plan(find_model(directory, "clip"), override, previous)


def touch(path):
    os.utime(path, ns=(1, 1))


def changed(one, other):
    return [version for version in one.origins if one.origins[version] != other.origins.get(version)]


def test_same_files_make_the_same_plan(directory):
    assert plan(directory) == plan(directory)
    assert list(plan(directory).origins) == [1, 2]


def test_change_of_a_versions_files_concerns_that_version_alone(directory):
    before = plan(directory)
    touch(directory / "2" / "saved_model.pb")

    assert changed(plan(directory), before) == [2]


@pytest.mark.parametrize("name", ["config.pbtxt", "labels.txt"])
def test_change_beside_the_configuration_concerns_every_version(directory, name):
    before = plan(directory)
    (directory / name).touch()
    touch(directory / name)

    assert changed(plan(directory), before) == [1, 2]


def test_new_version_leaves_the_others_as_they_are(directory):
    before = plan(directory)
    (directory / "3").mkdir()

    assert changed(plan(directory), before) == [3]


@pytest.mark.parametrize("name", ["configs/canary.pbtxt", "labels.txt"])
def test_change_of_a_named_configuration_or_of_the_labels_above_it_concerns_every_version(directory, name):
    (directory / "configs").mkdir()
    (directory / "configs" / "canary.pbtxt").write_text("version_policy { all {} }")
    (directory / "labels.txt").touch()

    def look():
        return make_plan(find_model(directory, "clip", "canary"))

    before = look()
    touch(directory / name)

    assert changed(look(), before) == [1, 2]


def test_override_takes_the_place_of_the_file(directory):
    overridden = plan(directory, ModelConfig(max_batch_size=9))

    assert overridden.config.max_batch_size == 9
    assert list(overridden.origins) == [2], "the file's version policy does not count either"
    assert changed(overridden, plan(directory)) == [2]


def test_override_stays_while_no_file_changes(directory):
    first = plan(directory, ModelConfig(max_batch_size=9))
    second = plan(directory, previous=first)
    touch(directory / "1" / "saved_model.pb")
    third = plan(directory, previous=second)

    assert second == first
    assert third.config.max_batch_size == 4


def test_new_override_replaces_an_older_one(directory):
    first = plan(directory, ModelConfig(max_batch_size=9))

    assert plan(directory, ModelConfig(max_batch_size=8), first).config.max_batch_size == 8


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("max_batch_size: many", "config.pbtxt:1:17"),
        ('backend: "onnxruntime"', "onnxruntime"),
        ("version_policy { specific { versions: 7 } }", r"serves none of \[1, 2\]"),
    ],
)
def test_configuration_that_cannot_be_served_is_refused(directory, text, problem):
    (directory / "config.pbtxt").write_text(text)

    with pytest.raises(LoadError, match=problem):
        plan(directory)


def test_broken_configuration_file_does_not_matter_under_an_override(directory):
    (directory / "config.pbtxt").write_text("max_batch_size: many")

    assert plan(directory, ModelConfig(max_batch_size=9)).config.max_batch_size == 9
