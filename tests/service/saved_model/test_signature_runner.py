"""Names in, names out: what Sessions refuse or return oddly is set right, and few prepared callables stay."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from service import aligned
from service.errors import InternalError, InvalidArgumentError
from service.saved_model.signature_runner import MOST_CALLABLES
from tests.service.saved_model.plain_tensorflow import assert_same

X = np.arange(12, dtype=np.float32).reshape(3, 4)
MANY = {f"out_{number}": np.stack([X[:, 0], np.full(3, number, np.float32)], axis=1) for number in range(1, 13)}


def test_an_output_that_is_an_input_is_answered_from_it(served):
    answer = served("tensors").run("echo", {"x": X}, ["again", "x", "y"])

    assert_same(answer, {"again": X * 2, "x": X, "y": X * 2})


def test_a_signature_whose_only_output_is_its_input_is_answered(served):
    assert_same(served("tensors").run("echo_only", {"x": X}, ["x"]), {"x": X})


def test_an_input_that_no_output_needs_is_taken(served):
    assert_same(served("tensors").run("unused", {"x": X, "k": np.array(1, np.float32)}, ["y"]), {"y": X * 2})


def test_a_tensor_inside_the_graph_may_be_an_input(served):
    assert_same(served("tensors").run("inner", {"y": X}, ["z"]), {"z": X + 1})


@pytest.mark.parametrize("offset", [0, 16, 61])
def test_a_large_input_may_lie_anywhere_and_stays_as_it_is(offset, served):
    memory = aligned.allocate(4_800_000 + 61)
    x = np.frombuffer(memory[offset : offset + 4_800_000], np.float32).reshape(-1, 4)
    x[:] = np.arange(x.size, dtype=np.float32).reshape(x.shape) % 1000
    before = x.copy()

    answer = served("tensors").run("echo", {"x": x}, ["y"])

    np.testing.assert_array_equal(answer["y"], before * 2)
    np.testing.assert_array_equal(x, before)


def test_a_large_input_may_have_gaps(served):
    x = np.arange(4_000_000, dtype=np.float32).reshape(-1, 8)[:, ::2]

    np.testing.assert_array_equal(served("tensors").run("echo", {"x": x}, ["y"])["y"], x * 2)


def test_two_inputs_of_one_placeholder_take_equal_values(served):
    x = np.array([[1, np.nan, -0.0, np.inf]], np.float32)

    assert_same(served("tensors").run("twice", {"left": x, "right": x.copy()}, ["y"]), {"y": x * 2})


@pytest.mark.parametrize("right", [X + 1, X[:2]])
def test_two_inputs_of_one_placeholder_that_differ_are_refused(right, served):
    with pytest.raises(InvalidArgumentError, match=r"signature 'twice': the inputs 'left' and 'right' are one tensor"):
        served("tensors").run("twice", {"left": X, "right": right}, ["y"])


@pytest.mark.parametrize(
    ("signature", "inputs", "output", "expected"),
    [
        ("mean", {"x": X}, "m", np.array(5.5, np.float32)),
        ("info", {}, "build", np.array(b"kit 1", dtype=object)),
        ("text0", {"text": np.array(b"a\0\0", dtype=object)}, "text", np.array(b"a\0\0", dtype=object)),
    ],
)
def test_scalars_come_back_as_arrays_of_rank_zero(signature, inputs, output, expected, served):
    assert_same(served("kit").run(signature, inputs, [output]), {output: expected})


@pytest.mark.parametrize(
    "elements",
    [[b""], [b"\0"], [b"a\0", b"\0a\0\0"], ["h\u00e9llo \U0001f600".encode()], [b"\xff\xfe"], [b"x" * 3_000_000], []],
)
def test_bytes_come_back_as_they_went_in(elements, served):
    text = np.empty(len(elements), dtype=object)
    text[:] = elements

    assert_same(served("kit").run("text", {"text": text}, ["text"]), {"text": text})
    assert_same(served("kit").run("id_bytes", {"v": text}, ["v"]), {"v": text})


@pytest.mark.parametrize(
    "x",
    [
        X[::-1],
        np.asfortranarray(X),
        np.arange(24, dtype=np.float32).reshape(3, 8)[:, ::2],
        np.frombuffer(X.tobytes(), np.float32).reshape(3, 4),
        np.frombuffer(b"." + X.tobytes(), np.float32, offset=1).reshape(3, 4),
        np.zeros((0, 4), np.float32),
    ],
    ids=["reversed", "columns first", "strided", "read-only", "not aligned", "no rows"],
)
def test_any_layout_in_memory_is_taken(x, served):
    assert_same(served("kit").run("scale", {"x": x, "k": np.array(2, np.float32)}, ["y"]), {"y": np.array(x * 2)})


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0, 1e-45])
def test_floats_keep_their_bits(value, served):
    v = np.array([value], np.float32)

    assert_same(served("kit").run("id_fp32", {"v": v}, ["v"]), {"v": v})


def test_only_wanted_outputs_are_answered_in_the_wanted_order(served):
    answer = served("kit").run("many", {"x": X}, ["out_10", "out_2"])

    assert list(answer) == ["out_10", "out_2"]
    assert_same(answer, {name: MANY[name] for name in answer})


def test_a_model_computes_only_what_is_wanted(served):
    """Computing ``checked`` fails for this input; ``y`` is answered all the same."""
    x = np.full((1, 4), np.nan, np.float32)

    assert_same(served("tensors").run("partly", {"x": x}, ["y"]), {"y": x * 2})
    with pytest.raises(InternalError, match="has a hole"):
        served("tensors").run("partly", {"x": x}, ["checked"])


def test_the_set_of_prepared_callables_is_bounded_and_each_answer_right(fresh):
    servable = fresh("kit")
    runner = servable._graph.live.runners["many"]
    pairs = list(itertools.combinations(MANY, 2))[: MOST_CALLABLES + 6]

    for pair in pairs:
        assert_same(servable.run("many", {"x": X}, pair), {name: MANY[name] for name in pair})

    assert set(runner._plans) == {frozenset(pair) for pair in pairs[-MOST_CALLABLES:]}


def test_a_callable_that_is_used_stays_prepared(fresh):
    servable = fresh("kit")
    runner = servable._graph.live.runners["many"]
    servable.run("many", {"x": X}, ["out_1"])
    kept = runner._plans[frozenset(["out_1"])]

    for pair in list(itertools.combinations(MANY, 2))[: MOST_CALLABLES + 2]:
        servable.run("many", {"x": X}, pair)
        servable.run("many", {"x": X}, ["out_1"])

    assert runner._plans[frozenset(["out_1"])] is kept


def test_order_of_wanted_outputs_needs_no_callable_of_its_own(fresh):
    servable = fresh("kit")
    runner = servable._graph.live.runners["many"]
    before = len(runner._plans)

    servable.run("many", {"x": X}, ["out_1", "out_2"])
    servable.run("many", {"x": X}, ["out_2", "out_1"])

    assert len(runner._plans) == before + 1


def test_many_threads_with_many_sets_of_outputs_each_get_their_own_answer(served):
    servable, start = served("kit"), threading.Barrier(8)
    names = list(MANY)

    def ask(thread):
        start.wait()
        for turn in range(20):
            wanted = names[(thread + turn) % 6 :][: 1 + turn % 3]
            x = X + 100 * thread
            for name, value in servable.run("many", {"x": x}, wanted).items():
                assert value[:, 0].tolist() == x[:, 0].tolist()
                assert value[:, 1].tolist() == MANY[name][:, 1].tolist()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
