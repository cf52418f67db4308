"""Every kind of SavedModel is served and answers bit for bit as TensorFlow itself does."""

import numpy as np
import pytest

from service.signature import Effect
from tests.models import KINDS
from tests.service.saved_model.plain_tensorflow import assert_same, run_plain, sample_inputs

COMPARED = [kind for kind in KINDS if kind not in ("random", "deep", "faults", "refused_node")]
"""One of the signatures of faults waits for a file; TensorFlow itself loads no part of the last one."""


@pytest.mark.parametrize("kind", COMPARED)
def test_every_signature_answers_as_plain_tensorflow_does(kind, exports, fresh):
    servable = fresh(kind)
    comparable = [one for one in servable.signatures.values() if one.effect is not Effect.RANDOM]
    inputs = {signature.name: sample_inputs(signature) for signature in comparable}

    got = {name: servable.run(name, given, _all_outputs(servable, name)) for name, given in inputs.items()}
    expected = run_plain(kind, exports(kind), inputs)

    assert got.keys() == expected.keys() != set()
    for name, answer in got.items():
        assert_same(answer, expected[name])


@pytest.mark.parametrize("kind", ["kit", "module", "several", "tf1_examples"])
def test_each_output_alone_equals_its_part_of_the_whole_answer(kind, served):
    servable = served(kind)
    for name, signature in servable.signatures.items():
        inputs = sample_inputs(signature)
        whole = servable.run(name, inputs, _all_outputs(servable, name))
        for output in signature.outputs:
            assert_same(servable.run(name, inputs, [output.name]), {output.name: whole[output.name]})


def test_a_deep_chain_of_calls_is_answered(served):
    x = np.zeros((2, 4), np.float32)

    answer = served("deep").run("serving_default", {"x": x}, ["y"])

    assert_same(answer, {"y": x + 2000})


def test_random_signatures_answer_differently_each_time(served):
    x = np.zeros((2, 4), np.float32)
    for name in ("op", "generator"):
        first, second = (served("random").run(name, {"x": x}, ["y"])["y"] for _ in range(2))
        assert not np.array_equal(first, second)


def test_a_counter_counts_and_can_be_read(fresh):
    servable = fresh("counter")

    counts = [servable.run("increment", {}, ["count"])["count"].item() for _ in range(3)]

    assert counts == [1, 2, 3]
    assert servable.run("read", {}, ["count"])["count"] == 3


def test_two_loads_of_one_export_have_their_own_state(fresh):
    one, other = fresh("counter"), fresh("counter")

    one.run("increment", {}, ["count"])

    assert other.run("read", {}, ["count"])["count"] == 0


def test_what_a_signature_stores_survives_the_callers_array(fresh):
    servable = fresh("counter")
    value = _aligned(1024)
    value[:] = 5

    servable.run("store", {"value": value}, ["rows"])
    value[:] = -1

    assert set(servable.run("recall", {}, ["value"])["value"]) == {5}


def test_an_input_with_a_default_value_may_be_left_out(served):
    servable, x = served("default_value"), np.ones((2, 4), np.float32)
    signature = servable.signatures["serving_default"]

    assert [(spec.name, spec.optional) for spec in signature.inputs] == [("k", True), ("x", False)]
    assert_same(servable.run("serving_default", {"x": x}, ["y"]), {"y": x * 3})
    assert_same(servable.run("serving_default", {"x": x, "k": np.array(2, np.float32)}, ["y"]), {"y": x * 2})


@pytest.mark.parametrize(
    ("kind", "effects"),
    [
        ("counter", {"increment": "writing", "read": "pure", "recall": "pure", "store": "writing"}),
        ("random", {"generator": "random", "op": "random", "stateless": "pure"}),
        ("tf1_variables", {"serving_default": "pure", "step": "pure", "train": "writing", "weights": "pure"}),
        ("tf1_control_flow", {"serving_default": "pure", "branch": "pure", "step": "pure", "train": "writing"}),
        ("tf1_pipeline", {"loss": "pure", "noted": "pure", "serving_default": "pure"}),
        ("keras", {"serve": "pure", "serving_default": "pure"}),
        (
            "effects",
            {
                "branch": "pure",
                "find": "pure",
                "python": "writing",
                "recall": "pure",
                "remember": "writing",
                "shuffle": "random",
                "write_file": "writing",
            },
        ),
    ],
)
def test_effects_are_what_the_signatures_do(kind, effects, served):
    assert {name: signature.effect for name, signature in served(kind).signatures.items()} == {
        name: Effect(effect) for name, effect in effects.items()
    }


def test_the_kit_is_pure_and_knows_what_cannot_be_batched(served):
    signatures = served("kit").signatures

    assert {signature.effect for signature in signatures.values()} == {Effect.PURE}
    assert {name for name, signature in signatures.items() if not signature.batchable} == {
        "blow",
        "info",
        "mean",
        "scale",
        "text0",
    }


def test_hidden_signatures_are_neither_served_nor_listed(served):
    servable = served("several")

    assert list(servable.signatures) == ["find", "length"]
    assert servable.unavailable == {}


@pytest.mark.parametrize("kind", ["keras_in_module", "optimizer"])
def test_exports_that_only_one_way_loads_are_served_whole(kind, served):
    assert served(kind).unavailable == {}
    assert "serving_default" in served(kind).signatures


@pytest.mark.parametrize(
    ("kind", "good", "reasons"),
    [
        ("broken_signature", ["serving_default"], {"broken": "no_such_node:0"}),
        ("refused_node", ["serving_default"], {"broken": "'dtype'"}),
        ("unknown_op", ["serving_default"], {"broken": "HomemadeOp", "addon": "tensorflow-addons"}),
        ("sparse", ["serving_default"], {"broken": "sparse", "complex": "complex64", "ragged": "composite"}),
        ("tf1_unready", ["serving_default"], {"find": "Table not initialized", "step": "'step' is no tensor"}),
        ("assign_before_read", ["assigns_first", "needs_neither"], {"reads_first": "'scratch'"}),
    ],
)
def test_signatures_that_cannot_be_served_are_named_with_the_reason_beside_good_ones(kind, good, reasons, served):
    servable = served(kind)

    assert list(servable.signatures) == good
    assert servable.unavailable.keys() == reasons.keys()
    for name, part in reasons.items():
        assert part in servable.unavailable[name]


def _aligned(size):
    """Return floats in memory as TensorFlow aligns its own, which it takes over without a copy."""
    memory = np.empty(size * 4 + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size * 4].view(np.float32)


def _all_outputs(servable, name):
    return [spec.name for spec in servable.signatures[name].outputs]
