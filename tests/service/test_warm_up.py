"""Every signature that writes nothing is run before the first request, and none of this is counted."""

import logging
import threading

import numpy as np
import pytest

from service.errors import InternalError, InvalidArgumentError
from service.signature import Effect
from service.warm_up import warm_up
from service.warm_up_samples import Sample
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import WAIT_S, Gate, kit, model_version


class Model:
    """A version with one signature that keeps the inputs of its runs."""

    def __init__(
        self, *inputs, outputs=None, effect=Effect.PURE, fails=None, samples=(), fails_at=lambda given: True, **options
    ):
        self.seen = []

        def function(given):
            self.seen.append(dict(given))
            if fails is not None and fails_at(given):
                raise fails
            return dict.fromkeys(["y"], np.zeros(1))

        self.servable = FakeServable((signature("f", inputs, outputs or [spec("y")], effect), function))
        self.loaded = model_version(self.servable, **options)
        try:
            warm_up(self.loaded, {"f": samples} if samples else {}, WAIT_S)
        finally:
            self.loaded.close(WAIT_S)

    @property
    def shapes(self):
        return [{name: array.shape for name, array in inputs.items()} for inputs in self.seen]

    @property
    def rows(self):
        return [len(inputs["x"]) for inputs in self.seen]


def test_each_signature_but_the_writing_ones_is_run_with_one_row_and_with_the_largest_batch():
    loaded = model_version(servable := kit(), default_max_batch_size=8)
    warm_up(loaded, {}, WAIT_S)
    loaded.close(WAIT_S)

    assert [(name, rows) for name, rows, _ in servable.runs] == [
        *((name, 1) for name in ("serving_default", "embed", "sum", "threshold", "draw", "text", "scale")),
        *((name, 8) for name in ("serving_default", "embed", "text")),
    ]


@pytest.mark.parametrize(
    ("config", "sizes"),
    [
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 4, 6 ] }", [1, 8, 4, 6]),
        ("max_batch_size: 8 dynamic_batching { preferred_batch_size: [ 1, 8 ] }", [1, 8]),
        ('signatures { key: "f" value { max_batch_size: 8 allowed_batch_sizes: [ 2, 4, 8 ] } }', [2, 8, 4]),
        ("max_batch_size: 1", [1]),
        ("max_batch_size: 8", [1, 8]),
    ],
)
def test_sizes_are_those_that_the_configuration_favours_or_allows(config, sizes):
    assert Model(spec("x"), outputs=[spec("y")], config=config).rows == sizes


def test_warm_up_is_not_counted_and_marks_no_alias_as_used():
    loaded = model_version(kit())
    warm_up(loaded, {}, WAIT_S)
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
    assert "is not warmed up with 2147483647 rows" in caplog.text


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


def test_warm_up_can_be_left_out():
    loaded = model_version(servable := kit())
    warm_up(loaded, {}, 0)
    loaded.close(WAIT_S)

    assert servable.runs == []


# Samples. --------------------------------------------------------------------------------------------------------


def sample(name="one", count=1, rows=1, value=5):
    return Sample(name, {"x": np.full((rows, 2), value, np.float32)}, count)


def test_samples_are_run_as_often_as_they_say_and_fill_the_sizes_that_follow():
    model = Model(spec("x"), samples=[sample(count=2, rows=3), sample("two", value=6)], default_max_batch_size=8)

    assert model.rows == [3, 3, 1, 1, 8]
    assert [inputs["x"][0, 0] for inputs in model.seen] == [5, 5, 6, 5, 5]


def test_sample_without_a_batch_dimension_is_all_that_is_run():
    one = Sample("one", {"x": np.ones((2, 3), np.float32)}, 1)

    assert Model(spec("x", shape=(2, 3)), samples=[one]).shapes == [{"x": (2, 3)}]


def test_sample_that_fails_is_named_and_the_next_one_runs(caplog):
    model = Model(
        spec("x"),
        samples=[sample(), sample("two", value=6)],
        fails=InternalError("five"),
        fails_at=lambda given: given["x"][0, 0] == 5,
    )

    (record,) = [record for record in caplog.records if record.name == "service.warm_up"]
    assert record.levelno == logging.WARNING
    assert "signature 'f', sample 'one' do not suit it: five" in record.message
    assert model.rows == [1, 1]


def test_strings_that_were_configured_and_do_not_suit_are_a_surprise(caplog):
    one = Sample("one", {"x": np.array([b"picture"], object)}, 1)
    Model(spec("x", "BYTES", (-1,)), samples=[one], fails=InvalidArgumentError("is no picture"))

    assert [record.levelno for record in caplog.records if record.name == "service.warm_up"] == [logging.WARNING]


def test_samples_of_a_writing_signature_are_not_run(caplog):
    assert Model(spec("x"), effect=Effect.WRITING, samples=[sample()]).seen == []
    assert "samples of signature 'f' are not run" in caplog.text


# Time. -----------------------------------------------------------------------------------------------------------


def test_warm_up_that_takes_too_long_is_given_up_and_the_version_is_served(caplog):
    gate = Gate()
    loaded = model_version(servable := kit(serving_default=gate))
    warm_up(loaded, {}, 0.01)

    assert "the warm-up is given up after 0.01 s" in caplog.text
    assert loaded.find_signature("embed")
    gate.opened.set()
    loaded.close(WAIT_S)
    assert [name for name, _, _ in servable.runs] == ["serving_default"]


def test_defect_in_a_warm_up_ends_the_load():
    def fail(_):
        raise MemoryError

    loaded = model_version(kit(serving_default=fail))
    with pytest.raises(MemoryError):
        warm_up(loaded, {}, WAIT_S)
    loaded.close(WAIT_S)


def test_defect_in_a_warm_up_that_was_given_up_is_logged(caplog):
    entered, proceed, logged = threading.Event(), threading.Event(), threading.Event()

    def fail(_):
        entered.set()
        assert proceed.wait(WAIT_S)
        raise MemoryError

    class Watch(logging.Handler):
        def emit(self, record):
            if record.exc_info:
                logged.set()

    loaded = model_version(kit(serving_default=fail))
    watch = Watch()
    logging.getLogger("service.warm_up").addHandler(watch)
    try:
        warm_up(loaded, {}, 0.01)
        proceed.set()
        assert logged.wait(WAIT_S)
    finally:
        logging.getLogger("service.warm_up").removeHandler(watch)
    loaded.close(WAIT_S)
