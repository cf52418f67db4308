import pytest

from service import saved_model
from tests.models import Exports


@pytest.fixture(scope="session")
def exports(tmp_path_factory):
    """Return a function from a kind of SavedModel to its path."""
    return Exports(tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="session")
def served(exports):
    """Return a function from a kind to its servable, loaded once; only for signatures that write nothing."""
    loaded = {}

    def serve(kind):
        if kind not in loaded:
            loaded[kind] = saved_model.load(exports(kind), model=kind, version=1)
        return loaded[kind]

    yield serve
    for servable in loaded.values():
        servable.close()


@pytest.fixture
def fresh(exports):
    """Return a function from a kind to a servable of the test's own, with untouched state."""
    loaded = []

    def serve(kind):
        loaded.append(saved_model.load(exports(kind), model=kind, version=1))
        return loaded[-1]

    yield serve
    for servable in loaded:
        servable.close()
