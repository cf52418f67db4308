"""Entries of a repository that lead to one SavedModel cost one copy of it; each keeps all that is its own."""

import shutil

import numpy as np
import pytest

from service.errors import InternalError
from service.layouts import find_models
from service.load_plan import make_plan
from service.loading import VersionLoader
from service.repository import Repository
from service.settings import Settings
from tests.service.serving import WAIT_S, Serving, message

X = np.ones((1, 4), np.float32)


class Shared:
    """A Triton repository whose entries are links to one export, or copies of it."""

    def __init__(self, root, export):
        self.root = root
        self.export = export
        self.repositories = []

    def add(self, name, config="", *, copied=False):
        (self.root / name / "1").mkdir(parents=True)
        place = self.root / name / "1" / "model.savedmodel"
        if copied:
            shutil.copytree(self.export, place)
        else:
            place.symlink_to(self.export)
        (self.root / name / "config.pbtxt").write_text(config)

    def serve(self, **options):
        repository = Repository(VersionLoader(Settings(default_max_batch_size=4, **options)).load)
        self.repositories.append(repository)
        for source in find_models(self.root):
            assert repository.apply(make_plan(source)) == {}
        return repository

    def reload(self, repository, name):
        (source,) = (each for each in find_models(self.root) if each.name == name)
        assert repository.apply(make_plan(source, None, repository.plan(name))) == {}


@pytest.fixture
def shared(tmp_path, export, caplog):
    """Make a repository around a copy of an export, so that its files may be changed."""
    made = []

    def make(kind):
        caplog.set_level("INFO", "service.saved_model")
        made.append(Shared(tmp_path / "models", shutil.copytree(export(kind), tmp_path / kind)))
        return made[-1]

    yield make
    for each in made:
        for repository in each.repositories:
            repository.close(WAIT_S)


def loads(caplog):
    """Return how many copies of the weights the log tells of."""
    return sum("loaded from its" in record.getMessage() for record in caplog.records)


def run(repository, name, signature, inputs, *outputs):
    return repository.find(name, "").loaded.run(signature, inputs, outputs)


def test_an_entry_for_each_signature_costs_one_copy_and_keeps_its_own_configuration(shared, caplog):
    models = shared("kit")
    for signature in ("embed", "text", "picky"):
        models.add(signature, f'parameters {{ key: "TF_SIGNATURE_DEF" value {{ string_value: "{signature}" }} }}')
    models.add("small", "max_batch_size: 2 instance_group { count: 3 }")
    repository = models.serve()

    assert loads(caplog) == 1
    versions = {name: repository.find(name, "").loaded for name in repository.model_names()}
    assert {name: each.config.default_signature for name, each in versions.items()} == {
        "embed": "embed",
        "picky": "picky",
        "small": "serving_default",
        "text": "text",
    }
    assert versions["small"].find_signature("embed").max_batch_size == 2
    assert versions["embed"].find_signature("embed").max_batch_size == 4
    assert len({id(each.scheduler) for each in versions.values()}) == 4


def test_each_entry_counts_and_fails_in_its_own_name(shared):
    models = shared("kit")
    models.add("one")
    models.add("two")
    repository = models.serve()
    served = Serving(repository, is_ready=bool)
    served.send(message({"x": X}, model="one"))

    assert [served.statistics(name).success.count for name in ("one", "two")] == [1, 0]
    for name in ("one", "two"):
        with pytest.raises(InternalError, match=f"^model '{name}' version 1 signature 'picky': "):
            run(repository, name, "picky", {"x": -X}, "y")


def test_entry_goes_on_when_the_one_that_was_loaded_first_is_unloaded(shared):
    models = shared("kit")
    models.add("one")
    models.add("two")
    repository = models.serve()
    repository.unload("one")
    repository._retirements.wait("one", WAIT_S)

    assert run(repository, "two", "picky", {"x": X}, "y")["y"].tolist() == [[10, 10]]


def test_reload_after_the_files_changed_leaves_the_other_entry_with_the_old_ones(shared, caplog, export):
    models = shared("counter")
    models.add("one")
    models.add("two")
    repository = models.serve()
    assert loads(caplog) == 1
    shutil.rmtree(models.export)
    shutil.copytree(export("kit"), models.export)
    models.reload(repository, "one")

    assert loads(caplog) == 2
    assert run(repository, "one", "picky", {"x": X}, "y")
    assert run(repository, "two", "read", {}, "count")["count"] == 0


def test_entries_of_one_export_see_the_same_variables_and_a_reload_begins_anew(shared, caplog):
    models = shared("counter")
    models.add("one")
    models.add("two")
    repository = models.serve()
    for expected, name in enumerate(("one", "two", "one"), start=1):
        assert run(repository, name, "increment", {}, "count")["count"] == expected
    (models.root / "two" / "config.pbtxt").write_text("instance_group { count: 1 }")
    models.reload(repository, "two")

    assert run(repository, "two", "read", {}, "count")["count"] == 0
    assert run(repository, "one", "read", {}, "count")["count"] == 3
    assert loads(caplog) == 2


@pytest.mark.parametrize(("share_equal_models", "copies"), [(False, 2), (True, 1)])
def test_equal_exports_are_shared_when_asked_to(shared, caplog, share_equal_models, copies):
    models = shared("kit")
    models.add("one")
    models.add("two", copied=True)
    repository = models.serve(share_equal_models=share_equal_models)

    assert loads(caplog) == copies
    assert run(repository, "two", "picky", {"x": X}, "y")


def test_another_tag_is_another_load(shared, caplog):
    models = shared("kit")
    models.add("one")
    models.serve()
    models.add("two", 'parameters { key: "TF_GRAPH_TAG" value { string_value: "nope" } }')
    (source,) = (each for each in find_models(models.root) if each.name == "two")

    assert "nope" in models.repositories[0].apply(make_plan(source))[1]
