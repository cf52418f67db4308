"""A loaded model reports its errors in its own name and closes only when nothing runs."""

import threading

import numpy as np
import pytest

from service import saved_model
from service.errors import InternalError, UnavailableError
from tests.service.saved_model.plain_tensorflow import assert_same

X = np.ones((2, 4), np.float32)


def test_an_error_of_the_model_names_model_version_signature_and_cause(served):
    with pytest.raises(InternalError) as caught:
        served("kit").run("picky", {"x": -X}, ["y"])

    text = str(caught.value)
    assert text.startswith("model 'kit' version 1 signature 'picky': assertion failed: [picky wants no negative value")
    assert "{{" not in text
    assert "\n" not in text
    assert len(text) < 700


def test_a_model_goes_on_after_an_error(served):
    with pytest.raises(InternalError):
        served("kit").run("picky", {"x": -X}, ["y"])

    assert_same(served("kit").run("picky", {"x": X}, ["y"]), {"y": X[:, :2] * 10})


def test_signatures_cannot_be_changed(served):
    with pytest.raises(TypeError):
        served("kit").signatures["new"] = None


def test_closing_waits_for_the_run_in_flight(fresh):
    servable = fresh("kit")
    x = np.array([[7, 0, 0, 300]], np.float32)
    answers = []
    run = threading.Thread(target=lambda: answers.append(servable.run("slow", {"x": x}, ["y"])))

    run.start()
    while "1 runs in flight" not in repr(servable):
        assert run.is_alive()
    servable.close()

    run.join()
    assert_same(answers.pop(), {"y": np.array([[70, 0]], np.float32)})


def test_a_closed_servable_refuses_runs(fresh):
    servable = fresh("module")
    servable.close()

    with pytest.raises(UnavailableError, match="model 'module' version 1 is closed"):
        servable.run("threshold", {}, ["threshold"])


def test_closing_twice_is_harmless(fresh):
    servable = fresh("module")
    servable.close()
    servable.close()

    assert repr(servable).endswith("closed>")


def test_a_model_that_is_loaded_beside_one_that_counted_begins_at_zero(exports):
    graphs = saved_model.SharedGraphs()
    models = {}
    for name in ("one", "another", "later"):
        models[name] = saved_model.load(exports("counter"), model=name, version=1, graphs=graphs)
        if name == "another":
            models["one"].run("increment", {}, ["count"])
    counts = {name: model.run("read", {}, ["count"])["count"].item() for name, model in models.items()}
    for model in models.values():
        model.close()

    assert counts == {"one": 1, "another": 1, "later": 0}
