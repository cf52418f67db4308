"""Signatures that XLA compiles on the CPU: as a whole, in parts that TensorFlow chooses, or as they were exported."""

import os
import subprocess
import sys

import numpy as np
import pytest
from tensorflow.core.protobuf.config_pb2 import RunMetadata, RunOptions

from service import saved_model
from service.devices import DeviceChoice, Instances
from service.optimizations import Optimizations, Xla
from service.saved_model.sessions import session_config
from service.signature import Effect
from tests.service.saved_model.plain_tensorflow import assert_same, sample_inputs

ON, AUTO = Optimizations(Xla.ON), Optimizations(Xla.AUTO)
DEVICES = DeviceChoice.parse("cpu:0,1").cpus()


@pytest.fixture
def load(exports):
    """Return a function that loads a kind with what TensorFlow may do to it; all are closed."""
    loaded = []

    def load(kind, optimizations, devices=DEVICES[:1], *, begin=True):
        instances = [Instances(device, 1) for device in devices]
        servable = saved_model.load(
            exports(kind), model=kind, version=1, instances=instances, optimizations=optimizations
        )
        loaded.append(servable)
        if begin:
            servable.begin_compiled()
        return servable

    yield load
    for servable in loaded:
        servable.close()


def run(servable, name, inputs):
    return servable.run(name, inputs, [spec.name for spec in servable.signatures[name].outputs])


def rows(count):
    return {"x": np.arange(4 * count, dtype=np.float32).reshape(count, 4)}


@pytest.mark.parametrize("optimizations", [ON, AUTO], ids=["on", "auto"])
@pytest.mark.parametrize("kind", ["module", "captured_constants", "keras_in_module"])
def test_compiled_answers_are_close_to_the_plain_ones(kind, optimizations, load, served):
    servable, plain = load(kind, optimizations), served(kind)

    for name, signature in servable.signatures.items():
        inputs = sample_inputs(signature)
        got, expected = run(servable, name, inputs), run(plain, name, inputs)
        for output, array in expected.items():
            if array.dtype.kind == "f":
                np.testing.assert_allclose(got[output], array, rtol=1e-4, atol=1e-6)
            else:
                np.testing.assert_array_equal(got[output], array)
            assert got[output].dtype == array.dtype


def test_each_shape_is_compiled_once(load):
    servable = load("module", ON)

    for count in (2, 4, 2, 4, 4):
        run(servable, "serving_default", rows(count))

    assert servable.compilations() == {"add": 0, "any_rank": 0, "serving_default": 2, "threshold": 0}


def test_each_device_compiles_for_itself(load):
    servable = load("module", ON, DEVICES)

    for _ in range(2):
        servable.run_everywhere("serving_default", rows(2), ["y"])

    assert servable.compilations()["serving_default"] == 2


def test_nothing_is_compiled_before_it_is_time(load, served):
    servable = load("module", ON, begin=False)

    assert np.array_equal(
        run(servable, "serving_default", rows(2))["y"], run(served("module"), "serving_default", rows(2))["y"]
    )
    assert set(servable.compilations().values()) == {0}


def test_signature_may_be_compiled_alone(load):
    servable = load("module", Optimizations(Xla.OFF, (("serving_default", Xla.ON),)))

    assert set(servable.compilations()) == {"serving_default"}


def test_what_was_exported_to_be_compiled_is_compiled_and_counted(load):
    servable = load("compiled_constants", Optimizations())

    for name in ("first", "first", "second"):
        run(servable, name, sample_inputs(servable.signatures[name]))

    assert servable.compilations() == {"first": 1, "second": 1}


def test_signature_that_cannot_be_compiled_runs_as_it_is_and_the_log_says_why(load, caplog):
    servable = load("keras_in_module", ON)
    inputs = sample_inputs(servable.signatures["find"])

    answers = [run(servable, "find", inputs) for _ in range(2)]

    assert_same(*answers)
    assert servable.compilations()["find"] == 0
    assert caplog.text.count("signature 'find' runs without XLA, which refuses it: ") == 1
    assert "DT_STRING" in caplog.text


def test_signature_that_writes_is_not_compiled(load, caplog):
    servable = load("counter", ON)

    assert "increment" not in servable.compilations()
    assert "signature 'increment' runs without XLA: it writes" in caplog.text


def test_reference_variables_are_served_without_xla(load, caplog):
    servable = load("tf1_variables", ON)

    assert run(servable, "serving_default", rows(2))["y"].shape == (2, 2)
    assert "signature 'serving_default' runs without XLA: " in caplog.text
    assert servable.compilations() == {}


def test_failure_of_a_compiled_run_that_is_not_the_compilers_is_passed_on(load, monkeypatch):
    import tensorflow as tf

    servable = load("module", ON)
    runner = servable._graph.live.runners["serving_default"]

    def fail(inputs, outputs):
        raise tf.errors.InvalidArgumentError(None, None, "a bad row")

    monkeypatch.setattr(runner._compiled, "run", fail)

    with pytest.raises(Exception, match="a bad row"):
        run(servable, "serving_default", rows(1))
    assert runner._current is runner._compiled


def test_random_signatures_stay_random(load):
    servable = load("random", ON)
    name = next(name for name, each in servable.signatures.items() if each.effect is Effect.RANDOM)

    first, second = (run(servable, name, rows(2)) for _ in range(2))

    assert not np.array_equal(next(iter(first.values())), next(iter(second.values())))


# Parts. ----------------------------------------------------------------------------------------------------------


def test_tensorflow_chooses_parts_only_where_it_is_asked_to(load):
    levels = [
        session_config(DEVICES[0], each).graph_options.optimizer_options.global_jit_level
        for each in (AUTO, ON, Optimizations())
    ]

    assert levels == [1, 0, 0]


def test_chosen_parts_are_compiled_on_the_cpu(load):
    servable = load("keras_in_module", AUTO)
    graph = servable._graph.live._copies[0].graph
    bound = graph.runners["serving_default"]._plain._bound
    feeds = {bound.inputs[name]: value for name, value in sample_inputs(bound.signature).items()}
    metadata = RunMetadata()

    graph._session.run(
        list(bound.outputs.values()), feeds, RunOptions(output_partition_graphs=True), run_metadata=metadata
    )

    ops = {node.op for part in metadata.partition_graphs for node in part.node}
    assert ops & {"XlaLaunch", "_XlaRun"}


# The truth. ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_number_of_compilations_is_that_of_the_programs_that_xla_writes_down(exports, tmp_path):
    program = f"""
from pathlib import Path
import numpy as np
from service import saved_model
from service.optimizations import Optimizations, Xla
servable = saved_model.load(
    Path({str(exports("module"))!r}), model="m", version=1, optimizations=Optimizations(Xla.ON)
)
servable.begin_compiled()
for rows in (1, 2, 4, 1, 2, 4, 8, 8):
    servable.run("serving_default", {{"x": np.zeros((rows, 4), np.float32)}}, ["y"])
servable.run("threshold", {{}}, ["threshold"])
print(sum(servable.compilations().values()))
"""
    environment = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={tmp_path}"}

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)

    written = [path for path in tmp_path.iterdir() if path.name.endswith(".before_optimizations.txt")]
    assert int(ran.stdout) == 5 == len(written)
