"""Mixed precision is told of by how far its answers are from those at full precision, on data that suits the model."""

import logging

import numpy as np
import pytest

from protos.model_config_pb2 import ModelConfig
from service.config_completion import ConfigDefaults, complete
from service.errors import InternalError
from service.precision_check import log_differences, reference_runs
from service.signature import Effect
from service.warm_up_samples import Sample
from tests.fakes import FakeServable, signature, spec

X, Y = spec("x"), spec("y")


def servable(factor=1.0, *, effect=Effect.PURE, datatype="FP32"):
    one = signature("a", [spec("x", datatype)], [Y, spec("exact")], effect)

    def run(inputs):
        values = np.ones((len(inputs["x"]), 2), np.float32) if datatype == "BYTES" else inputs["x"]
        return {"y": values * factor, "exact": values}

    return FakeServable((one, run))


def runs_of(model, samples=None):
    config = complete(ModelConfig(), model="clip", signatures=model.signatures, defaults=ConfigDefaults())
    return reference_runs(model, config, samples or {}, model="clip")


def test_largest_difference_is_told_with_its_output(caplog):
    caplog.set_level(logging.INFO, "service")

    log_differences(servable(1.0 + 2**-6), runs_of(servable()), model="clip")

    assert (
        "model 'clip': with mixed precision signature 'a' differs by up to 0.0156 of its largest value (output 'y')"
        in (caplog.text)
    )


def test_samples_are_used_where_there_are_some():
    x = np.array([[3.0, 4.0]], np.float32)

    (run,) = runs_of(servable(), {"a": [Sample("one", {"x": x}, 1)]})

    assert run.inputs["x"] is x


def test_random_rows_are_used_elsewhere():
    (run,) = runs_of(servable())

    assert len({tuple(row) for row in run.inputs["x"].tolist()}) == 3


@pytest.mark.parametrize("effect", [Effect.WRITING, Effect.RANDOM])
def test_signature_that_does_more_than_answer_is_left_alone(effect):
    model = servable(effect=effect)

    assert runs_of(model) == []
    assert model.runs == []


def test_strings_cannot_be_made_up():
    assert runs_of(servable(datatype="BYTES")) == []


def test_data_that_does_not_suit_a_model_is_told_of(caplog):
    caplog.set_level(logging.INFO, "service")

    def refuse(_inputs):
        raise InternalError("no picture")

    assert runs_of(FakeServable((signature("a", [X], [Y]), refuse))) == []
    assert "the precision of signature 'a' was not compared: no picture" in caplog.text
