"""Signatures whose rows influence each other are found before they are batched."""

import logging

import numpy as np
import pytest

from service.errors import InternalError
from service.row_probe import distinct_rows, probe_signatures
from service.signature import Effect
from tests.fakes import FakeServable, signature, spec

X = spec("x")
Y = spec("y")


def probed(function, inputs=(X,), outputs=(Y,), effect=Effect.PURE):
    servable = FakeServable((signature("s", inputs, outputs, effect), function))
    return probe_signatures(servable, model="m")["s"], servable


def test_independent_rows_stay_batchable():
    found, servable = probed(lambda inputs: {"y": inputs["x"] * 2})

    assert found.batchable
    assert len(servable.runs) == 4


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x - x.mean(axis=0),
        lambda x: x + 0.01 * x.sum(axis=0),
        lambda x: x[::-1],
        lambda x: np.where(len(x) > 1, np.nan, x),
    ],
    ids=["mean of the batch", "small influence", "order", "NaN"],
)
def test_rows_that_mix_are_found_and_the_output_is_named(function, caplog):
    with caplog.at_level(logging.WARNING):
        found, _ = probed(lambda inputs: {"y": function(inputs["x"])})

    assert not found.batchable
    assert "'y'" in found.why_not_batchable
    assert "signature 's' is not batched: rows mix: output 'y'" in caplog.text


def test_an_integer_output_may_not_differ_at_all():
    found, _ = probed(
        lambda inputs: {"y": np.full((len(inputs["x"]), 2), len(inputs["x"]), np.int64)},
        outputs=(spec("y", "INT64"),),
    )

    assert not found.batchable


def test_strings_without_dims_behind_the_rows_are_compared_too():
    names = np.array([b"cat", b"owl"], object)
    found, servable = probed(
        lambda inputs: {"y": names[(inputs["x"][:, 0] > 0.5).astype(int)]}, outputs=(spec("y", "BYTES", (-1,)),)
    )

    assert found.batchable
    assert len(servable.runs) == 4


def test_last_bits_of_a_float_may_differ():
    found, _ = probed(lambda inputs: {"y": inputs["x"] * np.float32(1 + 1e-6 * len(inputs["x"]))})

    assert found.batchable


def test_half_precision_may_differ_by_more():
    found, _ = probed(
        lambda inputs: {"y": (inputs["x"] * (1 + 0.004 * len(inputs["x"]))).astype(np.float16)},
        outputs=(spec("y", "FP16"),),
    )

    assert found.batchable


def test_an_output_with_another_number_of_rows_is_found():
    found, _ = probed(lambda inputs: {"y": inputs["x"][:1]})

    assert "'y' has shape [1, 2] for 3 rows" in found.why_not_batchable


def test_noise_that_a_lone_row_shows_too_is_no_mixing():
    random = np.random.default_rng(1)
    found, _ = probed(lambda inputs: {"y": random.random(inputs["x"].shape).astype(np.float32)})

    assert found.batchable


@pytest.mark.parametrize(
    ("inputs", "effect"),
    [((X,), Effect.RANDOM), ((X,), Effect.WRITING), ((spec("x", "BYTES"),), Effect.PURE), ((), Effect.PURE)],
)
def test_what_must_not_or_cannot_be_probed_is_never_run(inputs, effect):
    found, servable = probed(lambda _: {"y": np.zeros((1, 2), np.float32)}, inputs=inputs, effect=effect)

    assert servable.runs == []
    assert found == signature("s", inputs, (Y,), effect)


def test_a_signature_that_fails_on_made_up_rows_is_left_as_it_is():
    def fail(_):
        raise InternalError("indices out of range")

    found, _ = probed(fail)

    assert found.batchable


# Rows of samples. ------------------------------------------------------------------------------------------------


WORDS = spec("x", "BYTES", (-1,))


def words(*elements):
    return {"x": np.array(elements, object)}


def test_strings_are_probed_with_the_rows_of_samples():
    def joined(inputs):
        return {"y": np.array([b"".join(inputs["x"])] * len(inputs["x"]), object)}

    servable = FakeServable((signature("s", [WORDS], [spec("y", "BYTES", (-1,))]), joined))
    rows = distinct_rows([words(b"a"), words(b"b")])

    assert "rows mix: output 'y'" in probe_signatures(servable, model="m", rows={"s": rows})["s"].why_not_batchable
    assert [size for _, size, _ in servable.runs] == [1, 1, 2, 1]


def test_rows_to_probe_with_are_different_ones_of_one_shape():
    found = distinct_rows([words(b"a", b"a"), words(b"b", b"a"), {"x": np.ones((1, 2))}, words(b"c", b"d")])

    assert found["x"].tolist() == [b"a", b"b", b"c"]


@pytest.mark.parametrize("samples", [[], [words(b"a", b"a"), words(b"a")], [words()], [{}]])
def test_one_row_alone_shows_nothing(samples):
    assert distinct_rows(samples) is None
