"""One SavedModel on several devices: logical ones of the CPU, which TensorFlow treats as it treats GPUs."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import RunMetadata, RunOptions

from service import saved_model
from service.devices import DeviceChoice, Instances
from service.errors import InternalError
from service.saved_model import copies
from service.saved_model.shared_graphs import SharedGraphs
from service.signature import Effect
from tests.service.saved_model.plain_tensorflow import assert_same, sample_inputs

WAIT_S = 30
FIRST, SECOND = DeviceChoice.parse("cpu:0,1").cpus()
X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture
def load(exports):
    """Return a function that loads a kind with so many workers on each of the two devices; all are closed."""
    loaded = []

    def load(kind, *workers, graphs=None):
        instances = [Instances(device, count) for device, count in zip((FIRST, SECOND), workers, strict=False)]
        loaded.append(saved_model.load(exports(kind), model=kind, version=1, instances=instances, graphs=graphs))
        return loaded[-1]

    yield load
    for servable in loaded:
        servable.close()


def copies_of(servable):
    return servable._graph.live


def graphs_of(servable):
    return [copy.graph for copy in copies_of(servable)._copies]


def runs(servable):
    return {str(device): count for device, count in copies_of(servable).runs().items()}


def traced(graph, signature, inputs):
    """Return by device the ops that a run of a signature executes there."""
    bound = graph.runners[signature]._bound
    metadata = RunMetadata()
    feeds = {bound.inputs[name]: value for name, value in inputs.items()}
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    graph._session.run(list(bound.outputs.values()), feeds, options=options, run_metadata=metadata)
    return {stats.device[-5:]: {node.node_name for node in stats.node_stats} for stats in metadata.step_stats.dev_stats}


def is_of_model(node):
    """Whether TensorFlow did not add the node itself, to feed and to fetch."""
    return not node.startswith("_")


def fail_on(servable, index, error, monkeypatch):
    """Let every run on one device fail, and count them."""
    calls = []

    def run(inputs, outputs):
        calls.append(outputs)
        raise error

    graph = graphs_of(servable)[index]
    for runner in graph.runners.values():
        monkeypatch.setattr(runner, "run", run)
    return calls


@pytest.mark.parametrize("kind", ["module", "captured_constants", "tf1_tables", "keras_in_module"])
def test_each_copy_computes_on_its_own_device_and_answers_with_the_same_bits(kind, load):
    servable = load(kind, 1, 1)
    first, second = graphs_of(servable)

    for name, signature in servable.signatures.items():
        inputs, outputs = sample_inputs(signature), [spec.name for spec in signature.outputs]
        assert_same(second.runners[name].run(inputs, outputs), first.runners[name].run(inputs, outputs))
        ran = traced(second, name, inputs)
        assert any(is_of_model(node) for node in ran.get("CPU:1", ()))
        assert not any(is_of_model(node) for node in ran.get("CPU:0", ()))


def test_one_device_takes_one_copy(load):
    assert runs(load("module", 2)) == {"CPU:0": 0}


def test_runs_go_to_the_device_that_is_free(load, monkeypatch):
    servable = load("module", 1, 1)
    entered, opened = threading.Event(), threading.Event()
    runner = graphs_of(servable)[0].runners["serving_default"]
    run = runner.run

    def held(inputs, outputs):
        entered.set()
        assert opened.wait(WAIT_S)
        return run(inputs, outputs)

    monkeypatch.setattr(runner, "run", held)
    thread = threading.Thread(target=servable.run, args=("serving_default", {"x": X}, ["y"]))
    thread.start()
    assert entered.wait(WAIT_S)
    for _ in range(3):
        servable.run("serving_default", {"x": X}, ["y"])

    assert runs(servable) == {"CPU:0": 1, "CPU:1": 3}
    opened.set()
    thread.join()


def test_device_with_more_workers_gets_more_of_the_runs_that_are_held(load, monkeypatch):
    servable = load("module", 1, 3)
    opened, entered = threading.Event(), threading.Semaphore(0)

    def held(inputs, outputs):
        entered.release()
        assert opened.wait(WAIT_S)
        return {}

    for graph in graphs_of(servable):
        monkeypatch.setattr(graph.runners["serving_default"], "run", held)
    threads = [threading.Thread(target=servable.run, args=("serving_default", {"x": X}, ["y"])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert entered.acquire(timeout=WAIT_S)

    assert runs(servable) == {"CPU:0": 1, "CPU:1": 3}
    opened.set()
    for thread in threads:
        thread.join()


def test_a_warm_up_reaches_every_device(load):
    servable = load("module", 1, 1)
    reached = [graph.runners["serving_default"] for graph in graphs_of(servable)]
    seen = []
    for index, runner in enumerate(reached):
        runner.run = lambda inputs, outputs, index=index: seen.append(index)

    servable.run_everywhere("serving_default", {"x": X}, ["y"])

    assert seen == [0, 1]


# State. ----------------------------------------------------------------------------------------------------------


def test_model_whose_signatures_all_share_written_state_gets_one_copy(load):
    servable = load("counter", 1, 1)

    assert runs(servable) == {"CPU:0": 0}
    counts = [int(servable.run("increment", {}, ["count"])["count"]) for _ in range(4)]
    assert counts == [1, 2, 3, 4]
    assert int(servable.run("read", {}, ["count"])["count"]) == 4


def test_signatures_around_written_state_stay_on_one_device_and_the_others_spread(load):
    servable = load("effects", 1, 1)
    pinned = copies_of(servable).pinned

    writing = {name for name, each in servable.signatures.items() if each.effect is Effect.WRITING}
    assert writing <= pinned < set(servable.signatures)
    free = next(name for name in servable.signatures if name not in pinned)
    for name in [*sorted(pinned), free, free]:
        signature = servable.signatures[name]
        servable.run(name, sample_inputs(signature), [spec.name for spec in signature.outputs])
    assert runs(servable) == {"CPU:0": len(pinned), "CPU:1": 2}


# Failure. --------------------------------------------------------------------------------------------------------


def test_run_that_fails_on_one_device_is_answered_by_another_and_the_device_rests(load, monkeypatch, caplog):
    servable = load("module", 1, 1)
    calls = fail_on(servable, 0, tf.errors.InternalError(None, None, "the device is lost"), monkeypatch)

    answers = [servable.run("serving_default", {"x": X}, ["y"])["y"] for _ in range(5)]

    assert len(calls) == 1
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    assert "CPU:0 failed a run of signature 'serving_default' that CPU:1 answered" in caplog.text


def test_device_is_tried_again_after_its_rest(load, monkeypatch):
    servable = load("module", 1, 1)
    monkeypatch.setattr(copies, "_REST_S", 0.0)
    calls = fail_on(servable, 0, tf.errors.UnknownError(None, None, "no launch"), monkeypatch)

    for _ in range(6):
        servable.run("serving_default", {"x": X}, ["y"])

    assert len(calls) > 1


def test_run_that_fails_on_every_device_is_the_requests_own_fault(load, monkeypatch, caplog):
    servable = load("module", 1, 1)
    error = tf.errors.InternalError(None, None, "the model is wrong")
    counts = [fail_on(servable, index, error, monkeypatch) for index in (0, 1)]

    for _ in range(2):
        with pytest.raises(InternalError, match="the model is wrong"):
            servable.run("serving_default", {"x": X}, ["y"])

    assert [len(calls) for calls in counts] == [2, 2]
    assert "failed a run" not in caplog.text


def test_what_the_model_says_of_its_inputs_is_not_tried_again(load, monkeypatch):
    servable = load("module", 1, 1)
    error = tf.errors.InvalidArgumentError(None, None, "negative")
    counts = [fail_on(servable, index, error, monkeypatch) for index in (0, 1)]

    with pytest.raises(InternalError, match="negative"):
        servable.run("serving_default", {"x": X}, ["y"])

    assert sorted(len(calls) for calls in counts) == [0, 1]


def test_load_that_fails_on_a_later_device_frees_the_copies_before_it(load, monkeypatch):
    made = []

    class Failing(copies.LiveGraph):
        def __init__(self, blueprint, device, optimizations):
            if device == SECOND:
                raise MemoryError
            super().__init__(blueprint, device, optimizations)
            made.append(self)

    monkeypatch.setattr(copies, "LiveGraph", Failing)

    with pytest.raises(MemoryError):
        load("module", 1, 1)

    assert [hasattr(graph, "_session") for graph in made] == [False]


# Lifetime. -------------------------------------------------------------------------------------------------------


def test_unload_closes_the_session_of_every_device(load):
    servable = load("module", 1, 1)
    graphs = graphs_of(servable)

    servable.close()

    assert [hasattr(graph, "_session") for graph in graphs] == [False, False]


def test_models_share_what_lies_on_the_same_devices_alone(load):
    shared = SharedGraphs()
    one, same, other = (load("module", *workers, graphs=shared) for workers in ((1, 1), (1, 3), (1,)))

    assert same._graph is one._graph
    assert other._graph is not one._graph


def test_log_says_where_the_copies_lie(load, caplog):
    caplog.set_level("INFO", logger="service.saved_model")

    load("effects", 1, 1)

    assert "; on CPU:0, CPU:1, each with a copy of the weights; on the first alone, for the state that" in caplog.text
