"""What people's repositories look like when something is wrong: the state, the reason and the log line of each."""

import os
import shutil
from dataclasses import dataclass

import numpy as np
import pytest

from service.errors import NotFoundError
from tests.service.sites import DATA, FAILED, NO_VERSION, READY, UNAVAILABLE, cut, open_site, served


@pytest.fixture
def site(export, caplog):
    with open_site(export, caplog) as made:
        yield made


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
    "graph that is a directory": Case(graph_that_is_a_directory, FAILED, "is a directory", "is a directory"),
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
