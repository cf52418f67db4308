"""What people's repositories look like when something is wrong: the state, the reason and the log line of each.

Everything is real: places, plans, polls, and the loader with TensorFlow, on copies of one tiny export.
"""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from service.errors import LoadError, NotFoundError, UnavailableError
from service.loading import VersionLoader
from service.model_places import ModelPlaces
from service.repository import Repository
from service.repository_poller import RepositoryPoller
from service.settings import Settings
from tests.service.serving import WAIT_S

READY = "READY"
INTERVAL_S = 1000.0
"""Of polls, and the quiet time: longer than any test, so that nothing that it writes has lain still."""
UNAVAILABLE = "UNAVAILABLE"
NOBODY = 65534
X = np.ones((2, 4), np.float32)


class Site:
    """A model repository on disk, what serves from it, and the log."""

    def __init__(self, root, export, caplog):
        self.root = root
        self._export = export
        self._caplog = caplog
        self.repository = Repository(VersionLoader(Settings(default_max_batch_size=4)).load)
        self.places = ModelPlaces([root], [])
        self.poller = RepositoryPoller(self.repository, self.places, INTERVAL_S, INTERVAL_S)
        root.chmod(0o755)

    def put(self, place="clip/1", config=None):
        """Copy the export to a place; write a configuration for the model."""
        path = shutil.copytree(self._export, self.root / place)
        if config is not None:
            self.write(Path(place).parts[0] + "/config.pbtxt", config)
        return path

    def write(self, place, content=""):
        path = self.root / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def start(self):
        """Load all models, as a server does when it starts."""
        try:
            sources = self.places.all_models()
        except LoadError as error:
            return [str(error)]
        for source in sources:
            self.repository.add(source)
        return [problem for source in sources for problem in self.repository.load(source.name)]

    def poll(self, times=2):
        """Look again; two looks that see the same count."""
        for _ in range(times):
            self.poller.poll()
        self.repository._retirements.wait("clip", WAIT_S)

    def states(self):
        return {(each.name, each.version): each.state for each in self.repository.index()}

    def reasons(self):
        return " ".join(each.reason for each in self.repository.index())

    def log(self):
        """Return the warnings and errors since the last call."""
        lines = [record.getMessage() for record in self._caplog.records if record.levelname in ("WARNING", "ERROR")]
        self._caplog.clear()
        return lines

    def answer(self, name="clip"):
        """Return which version answers, after it did."""
        loaded = self.repository.find(name, "").loaded
        assert loaded.run("serving_default", {"x": X}, ["y"])["y"].shape[0] == len(X)
        return loaded.version


@pytest.fixture
def site(export, caplog):
    caplog.set_level("WARNING", "service")
    root = Path(tempfile.mkdtemp())  # other users may read it, unlike pytest's own
    made = Site(root, export("module"), caplog)
    yield made
    made.repository.close(WAIT_S)
    shutil.rmtree(root)


# What the start finds. --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A repository and what becomes of it.

    Attributes:
        make: puts it there.
        states: of each version afterwards, by model and version.
        reason: a part of the reason that RepositoryIndex and requests tell; "" for none.
        log: a part of the one warning or error in the log; "" for none.
    """

    make: object
    states: dict
    reason: str = ""
    log: str = ""


def served(*versions, model="clip"):
    return {(model, str(version)): READY for version in versions}


FAILED = {("clip", "1"): UNAVAILABLE}
NO_VERSION = {("clip", ""): UNAVAILABLE}
DATA = "variables/variables.data-00000-of-00001"


def cut(file, part=0.5):
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * part)])


def names_that_are_no_versions(site):
    for name in ("1", "2-backup", "1.5", "v3"):
        site.put(f"clip/{name}")


def file_called_like_a_version(site):
    site.put()
    site.write("clip/3")


def cut_variables(site):
    cut(site.put() / DATA)


def variables_one_byte_short(site):
    os.truncate(site.put() / DATA, (site.root / "clip/1" / DATA).stat().st_size - 1)


def no_variables(site):
    shutil.rmtree(site.put() / "variables")


def index_without_data(site):
    (site.put() / DATA).unlink()


def data_without_index(site):
    (site.put() / "variables/variables.index").unlink()


def cut_index(site):
    cut(site.put() / "variables/variables.index")


def random_graph(site):
    (site.put() / "saved_model.pb").write_bytes(np.random.default_rng(1).bytes(4096))


def empty_graph(site):
    (site.put() / "saved_model.pb").write_bytes(b"")


def cut_graph(site):
    cut(site.put() / "saved_model.pb")


def graph_that_is_a_directory(site):
    (site.put() / "saved_model.pb").unlink()
    (site.root / "clip/1/saved_model.pb").mkdir()


def one_number_twice(site):
    site.put("clip/7")
    site.put("clip/007")


def padded_number(site):
    site.put("clip/00000012")


def number_beyond_64_bits(site):
    site.put()
    site.put(f"clip/{2**63}")


def negative_number(site):
    site.put()
    site.put("clip/-2")


def empty_model(site):
    site.put("bert/1")
    (site.root / "clip").mkdir()


def configuration_without_versions(site):
    site.write("clip/config.pbtxt", "max_batch_size: 4")


def empty_version(site):
    (site.root / "clip/1").mkdir(parents=True)


def empty_version_beside_a_whole_one(site):
    site.put("clip/1", "version_policy { all {} }")
    (site.root / "clip/2").mkdir()


def nested_too_deep(site):
    site.put("clip/1/export/model.savedmodel")


def dangling_link(site):
    (site.root / "clip").mkdir()
    (site.root / "clip/1").symlink_to("nowhere")
    site.put("bert/1")


def version_of_a_dangling_link(site):
    (site.root / "clip/1").mkdir(parents=True)
    (site.root / "clip/1/model.savedmodel").symlink_to("nowhere")


def links_in_a_circle(site):
    site.put()
    (site.root / "clip/1/again").symlink_to("..")


def configured(text):
    return lambda site: site.put(config=text)


def other_backend(site):
    site.put("bert/1")
    site.write("clip/1/model.onnx")
    site.write("clip/config.pbtxt", 'backend: "onnxruntime"')


def other_backend_without_configuration(site):
    site.put("bert/1")
    site.write("clip/1/model.onnx")


def file_where_variables_should_be(site):
    shutil.rmtree(site.put() / "variables")
    site.write("clip/1/variables", "not a directory")


CASES = {
    "names that are no versions": Case(
        names_that_are_no_versions, served(1), log="ignored, no versions: '1.5', '2-bac"
    ),
    "file called like a version": Case(file_called_like_a_version, served(1), log="ignored, no versions: '3'"),
    "cut variables": Case(cut_variables, FAILED, "a file is cut or damaged", "'clip' version 1 is unavailable"),
    "variables one byte short": Case(variables_one_byte_short, FAILED, "a file is cut", "version 1 is unavailable"),
    "no variables": Case(no_variables, FAILED, "variables/variables.index is missing", "variables.index is missing"),
    "index without data": Case(index_without_data, FAILED, f"{DATA} is missing", f"{DATA} is missing"),
    "data without index": Case(data_without_index, FAILED, "variables.index is missing", "variables.index is missing"),
    "cut index": Case(cut_index, FAILED, "a file is cut or damaged", "a file is cut or damaged"),
    "random bytes as graph": Case(random_graph, FAILED, "cut or is no SavedModel", "cut or is no SavedModel"),
    "empty graph": Case(empty_graph, FAILED, "the file is empty or cut", "the file is empty or cut"),
    "cut graph": Case(cut_graph, FAILED, "cut", "cut"),
    "graph that is a directory": Case(graph_that_is_a_directory, FAILED, "no SavedModel", "no SavedModel"),
    "one number twice": Case(one_number_twice, NO_VERSION, "mean the same version", "clip/007 and "),
    "padded number": Case(padded_number, served(12)),
    "number beyond 64 bits": Case(number_beyond_64_bits, served(1), log=f"no versions: '{2**63}'"),
    "negative number": Case(negative_number, served(1), log="ignored, no versions: '-2'"),
    "empty model": Case(empty_model, served(1, model="bert"), log="ignored, no models: 'clip'"),
    "configuration without versions": Case(
        configuration_without_versions, NO_VERSION, "clip: no version directory", "clip: no version directory"
    ),
    "empty version": Case(empty_version, FAILED, "no SavedModel: neither", "no SavedModel: neither"),
    "empty version beside a whole one": Case(
        empty_version_beside_a_whole_one,
        served(1) | {("clip", "2"): UNAVAILABLE},
        "no SavedModel",
        "clip/2: no SavedMo",
    ),
    "nested too deep": Case(nested_too_deep, FAILED, "no SavedModel: neither", "no SavedModel: neither"),
    "dangling link": Case(dangling_link, served(1, model="bert"), log="ignored, no models: 'clip'"),
    "version of a dangling link": Case(version_of_a_dangling_link, FAILED, "no SavedModel", "no SavedModel"),
    "links in a circle": Case(links_in_a_circle, served(1)),
    "configured signature that is missing": Case(
        configured('signatures { key: "nope" value { max_batch_size: 2 } }'), FAILED, "'nope'", "'nope'"
    ),
    "default signature that is missing": Case(
        configured('parameters { key: "TF_SIGNATURE_DEF" value { string_value: "nope" } }'), FAILED, "'nope'", "'nope'"
    ),
    "wrong dtype": Case(
        configured('input { name: "x" data_type: TYPE_INT64 dims: [ 4 ] }'), FAILED, "TYPE_INT64", "TYPE_FP32"
    ),
    "wrong dims": Case(configured('input { name: "x" data_type: TYPE_FP32 dims: [ 5 ] }'), FAILED, "5", "4"),
    "output that is missing": Case(
        configured('output { name: "nope" data_type: TYPE_FP32 dims: [ 4 ] }'), FAILED, "'nope'", "'nope'"
    ),
    "nonsense for a configuration": Case(
        configured("max_batch_size: many"), NO_VERSION, "config.pbtxt:1:17", "config.pbtxt:1:17"
    ),
    "field that is not supported": Case(
        configured("sequence_batching { }"), NO_VERSION, "asks for sequence_batching", "asks for sequence_batching"
    ),
    "other name in the configuration": Case(configured('name: "bert"'), FAILED, "called 'bert'", "called 'bert'"),
    "policy that serves no version": Case(
        configured("version_policy { specific { versions: 3 } }"),
        NO_VERSION,
        "serves none of [1]",
        "serves none of [1]",
    ),
    "another backend's model beside": Case(
        other_backend, served(1, model="bert") | NO_VERSION, 'backend: "onnxruntime"', 'backend: "onnxruntime"'
    ),
    "another backend's model without a configuration": Case(
        other_backend_without_configuration, served(1, model="bert") | FAILED, "no SavedModel", "no SavedModel"
    ),
    "file where the variables should be": Case(
        file_where_variables_should_be, FAILED, "variables.index is missing", "variables.index is missing"
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_start(site, case):
    case.make(site)
    problems = site.start()

    assert site.states() == case.states
    assert case.reason in site.reasons()
    log = site.log()
    assert len(log) == bool(case.log), log
    assert all(case.log in line for line in log)
    assert len(problems) == sum(state == UNAVAILABLE for state in case.states.values())
    for name, version in case.states:
        if case.states[name, version] == READY:
            site.answer(name)
        elif (name, READY) not in [(each, state) for (each, _), state in case.states.items()]:
            with pytest.raises(NotFoundError) as refused:
                site.repository.find(name, "")
            assert case.reason in str(refused.value)


# What comes and goes while the server polls. ----------------------------------------------------------------------


@pytest.fixture
def unreadable():
    """Takes all rights from a path, and goes on as a user whom that stops; root it would not. Returns what ends it."""
    taken, was_root = [], os.geteuid() == 0

    def give_back():
        if was_root:
            os.seteuid(0)
        for path in taken:
            path.chmod(0o755)

    def take(path):
        taken.append(path)
        path.chmod(0)
        if was_root:
            os.seteuid(NOBODY)
        return give_back

    yield take
    give_back()


def test_model_that_cannot_be_read_for_a_while_is_loaded_when_it_can(site, unreadable):
    site.put()
    make_readable = unreadable(site.root / "clip")
    site.poll(6)
    assert site.states() == NO_VERSION
    assert "cannot be read: Permission denied" in site.reasons()
    (line,) = site.log()
    assert "'clip' cannot be loaded" in line
    assert "Permission denied" in line
    make_readable()
    site.poll()

    assert site.states() == served(1)
    assert site.answer() == 1
    assert site.log() == []


def test_path_that_appears_later_is_loaded_then(site):
    site.poll(6)
    assert site.states() == {}
    site.put()
    site.poll()

    assert site.answer() == 1
    assert site.log() == []


def test_copy_that_is_not_whole_yet_is_tried_again_until_it_is(site):
    path = site.put()
    whole = shutil.copy(path / DATA, site.root / "..whole")
    cut(path / DATA)
    site.poll(6)
    assert site.states() == FAILED
    (line,) = site.log()
    assert "a file is cut or damaged" in line
    shutil.copy(whole, path / DATA)
    site.poll()

    assert site.states() == served(1)
    assert site.log() == []


def test_older_version_serves_while_a_newer_one_is_not_whole(site):
    site.put()
    site.poll()
    cut(site.put("clip/2") / "saved_model.pb")
    site.poll(6)

    assert site.answer() == 1
    assert site.states() == served(1) | {("clip", "2"): UNAVAILABLE}
    (line,) = site.log()
    assert "model 'clip' version 2 is unavailable" in line
    assert line.endswith(site.reasons().strip())


def test_version_that_is_overwritten_in_place_serves_on_and_is_not_reloaded_from_half_a_file(site):
    path = site.put()
    site.poll()
    cut(path / DATA)
    site.poll(6)

    assert site.answer() == 1
    assert site.states() == served(1)
    (line,) = site.log()
    assert "version 1 was not reloaded, the one before is still served" in line


def test_version_that_is_removed_while_it_serves_is_unloaded(site):
    site.put()
    site.put("bert/1")
    site.poll()
    shutil.rmtree(site.root / "clip/1")
    site.poll(1)
    assert site.answer() == 1, "one look is not enough"
    site.poll(1)

    assert site.states() == served(1, model="bert")
    with pytest.raises(NotFoundError, match="'clip' is not found"):
        site.repository.find("clip", "")
    assert site.log() == []


def test_latest_version_that_is_removed_gives_way_to_the_one_before(site):
    site.put("clip/1")
    site.put("clip/2")
    site.poll()
    assert site.answer() == 2
    shutil.rmtree(site.root / "clip/2")
    site.poll()

    assert site.answer() == 1
    with pytest.raises(UnavailableError, match="'clip' version 2 is not at ready state"):
        site.repository.find("clip", "2")
    assert site.log() == []


def test_link_that_is_swapped_brings_what_it_leads_to(site):
    site.put("..old/clip/1")
    site.put("..new/clip/2")
    (site.root / "..data").symlink_to("..old")
    (site.root / "clip").symlink_to("..data/clip")
    site.poll()
    assert site.answer() == 1
    (site.root / "..next").symlink_to("..new")
    (site.root / "..next").rename(site.root / "..data")
    site.poll()

    assert site.answer() == 2
    assert site.log() == []


def test_place_that_is_gone_as_a_whole_stops_nothing(site):
    site.put()
    site.poll()
    site.root.rename(aside := site.root.with_name(site.root.name + "-aside"))
    site.poll(4)
    answered = site.answer()
    aside.rename(site.root)
    site.poll(4)

    assert answered == site.answer() == 1
    assert site.states() == served(1)


def test_configuration_that_breaks_while_the_model_serves_is_told_once(site):
    site.put()
    site.poll()
    site.write("clip/config.pbtxt", "max_batch_size: many")
    site.poll(6)

    assert site.answer() == 1
    (line,) = site.log()
    assert "config.pbtxt:1:17" in line
    site.write("clip/config.pbtxt", "max_batch_size: 2")
    site.poll()
    assert site.repository.find("clip", "").loaded.find_signature(None).max_batch_size == 2


def test_two_directories_of_one_number_leave_the_version_that_serves_alone(site):
    site.put("clip/7")
    site.poll()
    site.put("clip/007")
    site.poll(6)

    assert site.answer() == 7
    (line,) = site.log()
    assert "mean the same version" in line
