"""Names and versions find what they mean, and what cannot be served says why."""

from pathlib import Path

import pytest

from service.errors import InvalidArgumentError, LoadError, NotFoundError, UnavailableError
from service.layouts import ModelSource
from service.repository import Repository
from service.signature import Effect
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import WAIT_S, kit, repository


def tiny(*names):
    return FakeServable(
        *((signature(name, [spec("x")], [spec("y")], Effect.PURE), dict) for name in names or ["serving_default"])
    )


@pytest.fixture
def served():
    """Make repositories that are closed when the test ends."""
    made = []

    def make(models, **options):
        made.append(repository(models, **options))
        return made[-1]

    yield make
    for each in made:
        each.close(WAIT_S)


@pytest.fixture
def all_versions(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("version_policy { all {} }")
    return path


def found(repo, name, version=""):
    target = repo.find(name, version)
    return target.loaded.name, target.loaded.version, target.signature


# Names. ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("clip", ("clip", 1, None)),
        ("clip:embed", ("clip", 1, "embed")),
        ("clip:a:b", ("clip:a", 1, "b")),
        ("clip:a", ("clip:a", 1, None)),
        ("clip:a:b:c", ("clip:a", 1, "b:c")),
        ("clip:x:y", ("clip", 1, "x:y")),
        ("clip:", ("clip", 1, "")),
        ("clip::a", ("clip", 1, ":a")),
        (":odd", (":odd", 1, None)),
        (":odd:s", (":odd", 1, "s")),
    ],
)
def test_exact_name_wins_then_the_longest_prefix_before_a_colon(served, name, meaning):
    repo = served({model: {1: tiny()} for model in ("clip", "clip:a", ":odd")})

    assert found(repo, name) == meaning


@pytest.mark.parametrize("name", ["", "nope", "nope:embed", "clip ", "Clip", ":", ":clip", "cli"])
def test_unknown_name_is_not_found(served, name):
    repo = served({"clip": {1: tiny()}})

    with pytest.raises(NotFoundError, match=f"^Request for unknown model: '{name}' is not found"):
        repo.find(name, "")
    assert not repo.is_ready(name, "")


# Versions. -------------------------------------------------------------------------------------------------------


def test_latest_version_is_the_highest_number(served, all_versions):
    repo = served({"clip": {2: tiny(), 10: tiny(), 9: tiny()}}, config_path=all_versions)

    assert found(repo, "clip") == ("clip", 10, None)
    assert found(repo, "clip", "2") == ("clip", 2, None)
    assert found(repo, "clip:embed", "9") == ("clip", 9, "embed")
    assert [loaded.version for loaded in repo.ready_versions("clip")] == [2, 9, 10]


@pytest.mark.parametrize("text", ["01", " 1", "1abc", "+1"])
def test_version_is_read_as_c_does(served, text):
    assert found(served({"clip": {1: tiny()}}), "clip", text) == ("clip", 1, None)


def test_version_zero_is_a_version(served):
    assert found(served({"clip": {0: tiny()}}), "clip", "0") == ("clip", 0, None)


@pytest.mark.parametrize("version", ["0", "2", "9223372036854775807"])
def test_version_that_is_not_there_is_not_found(served, version):
    repo = served({"clip": {1: tiny()}})

    with pytest.raises(NotFoundError, match=f"'clip' version {version} is not found"):
        repo.find("clip", version)
    assert not repo.is_ready("clip", version)


def test_version_that_the_policy_leaves_out_is_as_good_as_absent(served):
    repo = served({"clip": {1: tiny(), 2: tiny()}})

    assert found(repo, "clip") == ("clip", 2, None)
    with pytest.raises(NotFoundError, match="version 1 is not found"):
        repo.find("clip", "1")


@pytest.mark.parametrize("name", ["clip", "nope", "clip:nope"])
@pytest.mark.parametrize("version", ["abc", "-1", "9223372036854775808"])
def test_version_is_checked_before_the_model(served, name, version):
    repo = served({"clip": {1: tiny()}})

    with pytest.raises(InvalidArgumentError, match=version):
        repo.find(name, version)
    with pytest.raises(InvalidArgumentError, match=version):
        repo.is_ready(name, version)


# States. ---------------------------------------------------------------------------------------------------------


def test_version_that_failed_is_unavailable_and_the_others_are_served(served, all_versions):
    repo = served({"clip": {1: tiny(), 2: LoadError("it is broken")}}, config_path=all_versions)

    assert found(repo, "clip") == ("clip", 1, None)
    with pytest.raises(UnavailableError, match=r"'clip' version 2 is not at ready state \(UNAVAILABLE: it is broken\)"):
        repo.find("clip:embed", "2")
    assert not repo.is_ready("clip", "2")
    assert repo.is_ready("clip", "")
    assert repo.every_model_is_ready()


def test_model_of_which_every_version_failed_is_not_found_with_the_reason(served):
    repo = served({"clip": {1: LoadError("it is broken")}})

    with pytest.raises(NotFoundError, match=r"'clip' has no available versions \(version 1 is UNAVAILABLE: it is bro"):
        repo.find("clip", "")
    with pytest.raises(NotFoundError, match="it is broken"):
        repo.find_ready("clip")


def test_model_whose_load_has_not_begun_is_unavailable_so_that_clients_try_again(served):
    repo = served({"clip": {1: tiny()}}, load=False)

    for find in (repo.find_ready, lambda name: repo.find(name, "")):
        with pytest.raises(UnavailableError, match=r"no available versions \(version 1 is LOADING\)"):
            find("clip")
    with pytest.raises(UnavailableError, match=r"version 1 is not at ready state \(LOADING\)"):
        repo.find("clip", "1")
    assert not repo.is_ready("clip", "1")
    assert not repo.every_model_is_ready()


def test_version_is_not_found_by_requests_while_it_loads():
    seen = []

    def load(name, version, directory, config):
        with pytest.raises(UnavailableError, match="LOADING"):
            repo.find(name, str(version))
        seen.append(directory)
        raise LoadError("enough")

    repo = Repository(load)
    repo.add(ModelSource("clip", {1: Path("/clip/1")}))
    repo.load("clip")

    assert seen == [Path("/clip/1")]


def test_nothing_is_found_after_close(all_versions):
    servables = {1: tiny(), 2: tiny()}
    repo = repository({"clip": servables}, config_path=all_versions)
    repo.close(WAIT_S)

    assert all(servable.closed for servable in servables.values())
    with pytest.raises(NotFoundError, match="no available versions"):
        repo.find("clip", "")
    with pytest.raises(UnavailableError, match=r"version 2 is not at ready state$"):
        repo.find("clip", "2")
    repo.close(WAIT_S)


def test_ready_means_that_every_model_has_a_ready_version(served):
    assert served({}).every_model_is_ready()
    assert served({"clip": {1: tiny()}, "bert": {1: tiny()}}).every_model_is_ready()
    assert not served({"clip": {1: tiny()}, "bert": {1: LoadError("broken")}}).every_model_is_ready()


# Aliases. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "ready"),
    [
        ("clip:embed", True),
        ("clip:serving_default", True),
        ("clip:nope", False),
        ("clip:broken", False),
        ("clip:", False),
    ],
)
def test_alias_is_ready_when_its_signature_can_be_run(served, name, ready):
    assert served({"clip": {1: kit()}}).is_ready(name, "") is ready


def test_alias_is_found_in_each_version_that_can_run_it(served, all_versions):
    repo = served({"clip": {1: tiny("old"), 2: tiny("old", "new"), 3: tiny("new")}}, config_path=all_versions)

    assert [target.loaded.version for target in repo.find_ready("clip")] == [1, 2, 3]
    assert [target.loaded.version for target in repo.find_ready("clip:old")] == [1, 2]
    assert [target.loaded.version for target in repo.find_ready("clip:new")] == [2, 3]
    with pytest.raises(NotFoundError, match="version 3 has no signature 'nope'"):
        repo.find_ready("clip:nope")


def test_alias_that_no_version_can_run_says_why(served):
    with pytest.raises(UnavailableError, match=r"'broken'.*no such node"):
        served({"clip": {1: kit()}}).find_ready("clip:broken")


def test_ready_versions_of_an_alias_are_its_models(served):
    repo = served({"clip": {1: kit()}})

    assert [loaded.version for loaded in repo.ready_versions("clip:embed")] == [1]
    assert repo.ready_versions("nope") == []
