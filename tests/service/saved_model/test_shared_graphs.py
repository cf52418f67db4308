"""Models made of the same files use one graph, until the last of them lets go of it; what is loaded is a fake."""

import shutil
import threading
from pathlib import Path

import pytest

from service.saved_model.shared_graphs import SharedGraphs
from service.signature import Effect
from tests.fakes import signature, spec

WAIT_S = 30
SERVE = frozenset({"serve"})


class Graph:
    """Stands for a loaded graph; knows whether it was closed."""

    def __init__(self, effect=Effect.PURE):
        self.signatures = {"s": signature("s", [spec("x")], [spec("y")], effect)}
        self.closed = False

    def close(self):
        assert not self.closed
        self.closed = True


@pytest.fixture
def model(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "saved_model.pb").write_text("graph")
    return tmp_path / "model"


@pytest.fixture
def copy(model, tmp_path):
    return shutil.copytree(model, tmp_path / "copy")


@pytest.fixture
def graphs():
    return SharedGraphs()


def take(graphs, path, name="a", load=Graph, tags=SERVE):
    return graphs.take(path, tags, (name, 1), load)


def change(path):
    (path / "saved_model.pb").write_text("another graph")


def test_second_model_of_the_same_files_joins_the_first(graphs, model, tmp_path):
    (tmp_path / "link").symlink_to(model)
    one, other = take(graphs, model, "a"), take(graphs, tmp_path / "link", "b")

    assert other.graph is one.graph
    assert [one.is_joined, other.is_joined] == [False, True]
    assert other.loaded_for == ("a", 1)


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
def test_graph_is_closed_by_the_last_that_lets_go_of_it(graphs, model, order):
    shares = [take(graphs, model, name) for name in "abc"]
    graph = shares[0].graph
    for index in order[:-1]:
        shares[index].release()
        assert not graph.closed
    shares[order[-1]].release()

    assert graph.closed
    assert repr(graphs) == "<SharedGraphs []>"


def test_load_after_the_last_release_brings_a_new_graph(graphs, model):
    first = take(graphs, model)
    first.release()
    second = take(graphs, model)

    assert second.graph is not first.graph
    assert not second.graph.closed


def test_model_that_is_loaded_again_keeps_the_graph(graphs, model):
    old, new = take(graphs, model), take(graphs, model)
    assert new.graph is old.graph
    old.release()
    assert not new.graph.closed
    new.release()
    assert new.graph.closed


def test_load_after_the_files_changed_brings_a_new_graph_and_leaves_the_other_alone(graphs, model):
    a, b = take(graphs, model, "a"), take(graphs, model, "b")
    change(model)
    reloaded = take(graphs, model, "a")
    a.release()

    assert reloaded.graph is not b.graph
    assert not b.graph.closed
    assert take(graphs, model, "c").graph is reloaded.graph


def test_other_tags_mean_another_graph(graphs, model):
    assert take(graphs, model, "a").graph is not take(graphs, model, "b", tags=frozenset({"serve", "gpu"})).graph


def test_graph_whose_files_changed_while_it_was_loaded_is_not_shared(graphs, model):
    def load():
        change(model)
        return Graph()

    alone = take(graphs, model, "a", load)
    other = take(graphs, model, "b")

    assert other.graph is not alone.graph
    alone.release()
    assert alone.graph.closed


def test_models_with_writing_signatures_share_their_variables_but_a_reload_starts_anew(graphs, model):
    def load():
        return Graph(Effect.WRITING)

    a, b = take(graphs, model, "a", load), take(graphs, model, "b", load)
    reloaded = take(graphs, model, "a", load)

    assert b.graph is a.graph
    assert reloaded.graph is not a.graph
    assert take(graphs, model, "c", load).graph is reloaded.graph, "the latest is joined"


def test_graph_that_was_written_to_is_joined_no_more(graphs, model):
    a, b = take(graphs, model, "a"), take(graphs, model, "b")
    b.note_write()
    c = take(graphs, model, "c")

    assert b.graph is a.graph
    assert c.graph is not a.graph
    assert take(graphs, model, "d").graph is c.graph


def test_equal_files_are_shared_only_when_asked_to(model, copy):
    for equal in (False, True):
        graphs = SharedGraphs(equal=equal)
        assert (take(graphs, copy, "b").graph is take(graphs, model, "a").graph) is equal


def test_files_that_differ_are_not_shared(model, copy):
    graphs = SharedGraphs(equal=True)
    (copy / "saved_model.pb").write_text("GRAPH")

    assert take(graphs, model, "a").graph is not take(graphs, copy, "b").graph


def test_load_that_fails_leaves_nothing_and_the_next_is_tried(graphs, model):
    def fail():
        raise ValueError("it is broken")

    with pytest.raises(ValueError, match="it is broken"):
        take(graphs, model, load=fail)

    assert repr(graphs) == "<SharedGraphs []>"
    assert not take(graphs, model).is_joined


def test_load_that_comes_while_another_of_the_same_files_runs_waits_and_joins(graphs, model):
    begun, gate, shares = threading.Event(), threading.Event(), []

    def load():
        begun.set()
        assert gate.wait(WAIT_S)
        return Graph()

    def work(name, load):
        shares.append(take(graphs, model, name, load))

    first = threading.Thread(target=work, args=("a", load))
    first.start()
    assert begun.wait(WAIT_S)
    second = threading.Thread(target=work, args=("b", pytest.fail))
    second.start()
    gate.set()
    for thread in (first, second):
        thread.join(WAIT_S)

    assert shares[0].graph is shares[1].graph


def test_what_is_in_use_is_never_closed_however_loads_and_releases_meet(graphs, model):
    faults = []

    def work(name):
        for _ in range(200):
            share = take(graphs, model, name)
            if share.graph.closed:
                faults.append(name)
            share.release()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert faults == []
    assert repr(graphs) == "<SharedGraphs []>"


def test_directory_that_is_not_there_is_left_to_the_load(graphs):
    with pytest.raises(ZeroDivisionError):
        take(graphs, Path("/nowhere"), load=lambda: 1 / 0)
