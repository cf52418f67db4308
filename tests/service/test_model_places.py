"""What the options name is found: all of it at the start, or one model by its name."""

import pytest

from service.errors import LoadError
from service.load_plan import make_plan
from service.model_places import ModelPlaces


def make(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def places(model_repository=(), model=()):
    return ModelPlaces(model_repository, model)


def sources(**options):
    return {source.name: sorted(source.versions) for source in places(**options).all_models()}


# Sources. --------------------------------------------------------------------------------------------------------


def test_every_repository_is_searched_and_every_model_option_is_one_model(tmp_path):
    make(
        tmp_path, "one/clip/7/saved_model.pb", "one/bert/1/saved_model.pb", "two/saved_model.pb", "a=b/3/saved_model.pb"
    )

    assert sources(model_repository=[tmp_path / "one", tmp_path / "two"], model=[f"mine={tmp_path / 'a=b'}"]) == {
        "bert": [1],
        "clip": [7],
        "two": [1],
        "mine": [3],
    }


def test_name_that_the_user_chose_counts_more_than_the_configurations(tmp_path):
    make(tmp_path, "clip/7/saved_model.pb", "clip/config.pbtxt")
    (source,) = places(model=[f"a:b={tmp_path / 'clip'}"]).all_models()

    assert (source.name, source.renamed) == ("a:b", True)
    assert source.config_path == tmp_path / "clip" / "config.pbtxt"


def test_one_path_may_be_served_under_two_names(tmp_path):
    make(tmp_path, "saved_model.pb")

    assert sources(model=[f"a={tmp_path}", f"b={tmp_path}"]) == {"a": [1], "b": [1]}


@pytest.mark.parametrize("option", ["clip", "=/models", "clip=", "=", ""])
def test_model_option_without_name_and_path_is_refused(option):
    with pytest.raises(LoadError, match=f"--model {option}: expected NAME=PATH"):
        places(model=[option])


def test_model_option_on_several_models_is_refused(tmp_path):
    make(tmp_path, "a/saved_model.pb", "b/saved_model.pb")

    with pytest.raises(LoadError, match="holds 2 models; expected the directory of one"):
        places(model=[f"mine={tmp_path}"]).all_models()


def test_path_that_is_not_there_is_refused(tmp_path):
    for options in ({"model_repository": [tmp_path / "nope"]}, {"model": [f"mine={tmp_path / 'nope'}"]}):
        with pytest.raises(LoadError, match="nope: no such directory"):
            places(**options).all_models()


def test_no_path_at_all_is_refused():
    with pytest.raises(LoadError, match="nothing to serve"):
        places()


def test_named_configuration_is_taken_wherever_a_model_is_found(tmp_path):
    for model in ("one/clip", "single"):
        make(tmp_path, f"{model}/7/saved_model.pb", f"{model}/config.pbtxt", f"{model}/configs/canary.pbtxt")
    chosen = ModelPlaces([tmp_path / "one"], [f"mine={tmp_path / 'single'}"], config_name="canary")
    found = [*chosen.all_models(), chosen.find("clip"), chosen.find("mine")]

    assert [source.name for source in found] == ["clip", "mine", "clip", "mine"]
    assert {source.config_path.name for source in found} == {"canary.pbtxt"}


# TensorFlow Serving's list. --------------------------------------------------------------------------------------


def test_listed_models_are_found_with_their_versions_beside_the_others(tmp_path):
    make(tmp_path, "one/clip/7/saved_model.pb", *(f"elsewhere/{version}/saved_model.pb" for version in (1, 2)))
    path = tmp_path / "models.config"
    entry = f'name: "bert" base_path: "{tmp_path / "elsewhere"}" model_version_policy {{ all {{ }} }}'
    path.write_text(f"model_config_list {{ config {{ {entry} }} }}")
    listed = ModelPlaces([tmp_path / "one"], listing=path)

    assert [source.name for source in listed.all_models()] == listed.names()[::-1] == ["clip", "bert"]
    assert list(make_plan(listed.find("bert")).origins) == [1, 2]
    (tmp_path / "elsewhere/config.pbtxt").write_text("version_policy { latest { } }")
    assert list(make_plan(listed.find("bert")).origins) == [2], "the model's own configuration goes before the list"

    path.write_text("")
    assert (listed.names(), listed.find("bert")) == (["clip"], None)


def test_list_alone_may_be_all_there_is(tmp_path):
    (tmp_path / "models.config").touch()

    assert ModelPlaces([], listing=tmp_path / "models.config").all_models() == []


# By name. --------------------------------------------------------------------------------------------------------


@pytest.fixture
def root(tmp_path):
    make(
        tmp_path,
        "models/clip/7/saved_model.pb",
        "models/bert/1/model.savedmodel/saved_model.pb",
        "models/empty/notes.txt",
        "models/.hidden/1/saved_model.pb",
        "models/lost+found/1/saved_model.pb",
        "models/README",
        "single/3/saved_model.pb",
        "outside/1/saved_model.pb",
    )
    return tmp_path


@pytest.fixture
def everywhere(root):
    return places([root / "models", root / "single"], [f"mine={root / 'outside'}"])


@pytest.mark.parametrize(("name", "version"), [("clip", 7), ("bert", 1), ("single", 3), ("mine", 1)])
def test_model_is_found_by_its_name(everywhere, name, version):
    source = everywhere.find(name)

    assert source.name == name
    assert list(source.versions) == [version]


@pytest.mark.parametrize(
    "name",
    ["nope", "outside", "models", "README", ".hidden", "lost+found", ".", "..", "3", "a" * 255, "a" * 256, "é" * 200],
)
def test_name_that_is_no_model_is_not_found(everywhere, name):
    assert everywhere.find(name) is None


def test_names_are_those_that_could_be_loaded(everywhere):
    assert everywhere.names() == ["bert", "clip", "empty", "mine", "single"]


def test_directory_without_a_version_is_a_model_with_a_problem(everywhere):
    assert "no version directory" in everywhere.find("empty").problem
    assert everywhere.find("empty").is_empty


def test_model_that_came_later_is_found(everywhere, root):
    assert everywhere.find("late") is None
    make(root, "models/late/2/saved_model.pb")

    assert list(everywhere.find("late").versions) == [2]
    assert "late" in everywhere.names()


def test_name_that_two_places_have_is_refused(root):
    make(root, "more/clip/1/saved_model.pb")

    with pytest.raises(LoadError, match="two models are called 'clip'"):
        places([root / "models", root / "more"]).find("clip")


def test_directory_may_be_empty_but_must_be_there(tmp_path):
    (tmp_path / "empty").mkdir()
    places([tmp_path / "empty"]).check()

    with pytest.raises(LoadError, match="nope: no such directory"):
        places([tmp_path / "nope"]).check()


def test_models_that_are_present_leave_out_directories_without_a_version(everywhere, root):
    make(root, "models/waiting/config.pbtxt")

    assert [source.name for source in everywhere.present_models()] == ["bert", "clip", "mine", "single"]


def test_no_model_may_be_present_yet_but_the_place_must_be(tmp_path):
    (tmp_path / "empty").mkdir()

    assert places([tmp_path / "empty"]).present_models() == []
    with pytest.raises(LoadError, match="nope: no such directory"):
        places([tmp_path / "nope"]).present_models()


def test_directory_that_went_away_has_no_names(tmp_path):
    assert places([tmp_path / "nope"], ["mine=/models"]).names() == ["mine"]
