"""Every signature that writes nothing is run before the first request, and none of this is counted."""

import logging

import numpy as np
import pytest

from service.errors import InternalError, InvalidArgumentError
from service.signature import Effect
from service.warm_up import warm_up
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import WAIT_S, kit, model_version


class Model:
    """A version with one signature that keeps the inputs of its runs."""

    def __init__(self, *inputs, outputs=None, effect=Effect.PURE, fails=None, **options):
        self.seen = []

        def function(given):
            self.seen.append(dict(given))
            if fails is not None:
                raise fails
            return dict.fromkeys(["y"], np.zeros(1))

        self.servable = FakeServable((signature("f", inputs, outputs or [spec("y")], effect), function))
        self.loaded = model_version(self.servable, **options)
        try:
            warm_up(self.loaded)
        finally:
            self.loaded.close(WAIT_S)

    @property
    def shapes(self):
        return [{name: array.shape for name, array in inputs.items()} for inputs in self.seen]


def test_each_signature_but_the_writing_ones_is_run_with_one_row_and_with_the_largest_batch():
    loaded = model_version(servable := kit(), default_max_batch_size=8)
    warm_up(loaded)
    loaded.close(WAIT_S)

    assert [(name, rows) for name, rows, _ in servable.runs] == [
        *((name, rows) for name in ("serving_default", "embed") for rows in (1, 8)),
        ("sum", 1),
        ("threshold", 1),
        ("draw", 1),
        ("text", 1),
        ("text", 8),
        ("scale", 1),
    ]


def test_warm_up_is_not_counted_and_marks_no_alias_as_used():
    loaded = model_version(kit())
    warm_up(loaded)
    loaded.close(WAIT_S)

    assert loaded.statistics().execution_count == 0
    assert loaded.statistics().last_inference_ms == 0
    assert not loaded.aliases_used


def test_all_outputs_are_asked_for():
    model = Model(spec("x"), outputs=[spec("a"), spec("y")])

    assert {outputs for _, _, outputs in model.servable.runs} == {("a", "y")}


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ([spec("x", shape=(-1, -1, 3))], [{"x": (1, 1, 3)}, {"x": (4, 1, 3)}]),
        ([spec("x", shape=(2, 3))], [{"x": (2, 3)}]),
        ([spec("x", shape=())], [{"x": ()}]),
        ([spec("x", shape=None)], [{"x": ()}]),
        ([spec("x"), spec("w", shape=(-1,))], [{"x": (1, 2), "w": (1,)}, {"x": (4, 2), "w": (4,)}]),
        ([spec("k", shape=(), optional=True), spec("x", shape=(2,))], [{"x": (2,)}]),
        ([], [{}]),
    ],
)
def test_zeros_have_a_shape_that_fits(inputs, shapes):
    assert Model(*inputs, default_max_batch_size=4).shapes == shapes


@pytest.mark.parametrize("x", [spec("x"), spec("x", "BYTES", (-1,)), spec("x", "INT8", (-1, 8))])
def test_a_batch_that_no_memory_can_hold_is_not_warmed_up(x, caplog):
    caplog.set_level(logging.INFO, "service")
    model = Model(x, default_max_batch_size=2**31 - 1)

    assert [array.shape[0] for (array,) in map(dict.values, model.seen)] == [1]
    assert "2147483647 rows would take" in caplog.text


@pytest.mark.parametrize("datatype", ["BOOL", "UINT8", "INT64", "FP16", "BF16", "FP64", "BYTES"])
def test_zeros_have_the_datatype_of_the_input(datatype):
    x = spec("x", datatype, (-1, 2))
    (array,) = Model(x, default_max_batch_size=1).seen[0].values()

    assert array.dtype == x.datatype.dtype
    assert array.tolist() == ([[b"", b""]] if datatype == "BYTES" else [[0, 0]])


@pytest.mark.parametrize("effect", [Effect.PURE, Effect.RANDOM])
def test_signature_that_zeros_do_not_suit_is_served_with_a_warning(caplog, effect):
    Model(spec("x"), effect=effect, fails=InternalError("log of zero"))

    (record,) = [record for record in caplog.records if record.name == "service.warm_up"]
    assert record.levelno == logging.WARNING
    assert "signature 'f'" in record.message
    assert "log of zero" in record.message


def test_strings_that_do_not_suit_are_no_surprise(caplog):
    caplog.set_level(logging.INFO, "service")
    Model(spec("x", "BYTES", (-1,)), fails=InvalidArgumentError("is no picture"))

    (record,) = [record for record in caplog.records if record.name == "service.warm_up"]
    assert record.levelno == logging.INFO


def test_writing_signature_is_never_run():
    assert Model(spec("x"), effect=Effect.WRITING).seen == []
