"""A model that XLA compiles, from its config.pbtxt to the counters: whatever sizes requests have, all is compiled when
it is ready."""

import random

import numpy as np
import pytest

from service import saved_model
from service.devices import DeviceChoice
from service.layouts import ModelSource
from service.loading import VersionLoader
from service.repository import Repository
from service.settings import Settings
from tests.service.metrics.test_metrics import samples
from tests.service.serving import WAIT_S, Serving, message, outputs

CONFIG = """
signatures {
  key: "serving_default"
  value { max_batch_size: 8 xla: "on" %s }
}
"""

PARTS = """
parameters { key: "xla" value { string_value: "auto" } }
signatures { key: "serving_default" value { max_batch_size: 8 allowed_batch_sizes: [ 2, 8 ] } }
"""


@pytest.fixture
def serve(export, tmp_path):
    """Return a function that serves a SavedModel with a configuration; it is closed when the test ends."""
    repositories = []

    def serve(text):
        path = tmp_path / "config.pbtxt"
        path.write_text(text)
        made = Repository(VersionLoader(Settings()).load)
        repositories.append(made)
        made.add(ModelSource("clip", {1: export("module")}, path))
        assert made.load("clip") == []
        return Serving(made, lambda: True)

    yield serve
    for made in repositories:
        made.close(WAIT_S)


def compilations(served):
    return {labels[0]: int(count) for (name, *labels), count in samples(served).items() if "xla_compilations" in name}


def ask_random_sizes(served):
    """Send requests of 1 to 20 rows, all at once, and return what was sent and answered."""
    chosen = random.Random(1)
    waiting = []
    for _ in range(100):
        x = np.full((chosen.randint(1, 20), 4), chosen.randint(0, 9), np.float32)
        waiting.append((x, served.submit(message({"x": x}))[0]))
    return [(x, outputs(answer.wait())["y"]) for x, answer in waiting]


def is_right(x, y):
    """Whether each of the equal rows is answered, and all alike."""
    return np.shape(y)[0] == len(x) and np.ptp(np.asarray(y), axis=0).max() < 1e-3


@pytest.mark.parametrize("device", ["cpu", "cpu:0,1"])
@pytest.mark.parametrize(("sizes", "count"), [("allowed_batch_sizes: [ 2, 8 ]", 2), ("", 4)], ids=["given", "doubling"])
def test_each_allowed_size_is_compiled_once_on_each_device_and_none_after_ready(
    serve, monkeypatch, sizes, count, device
):
    devices = DeviceChoice.parse(device).cpus()
    monkeypatch.setattr(saved_model, "devices", lambda: devices)

    served = serve(CONFIG % sizes)
    before = compilations(served)
    answers = ask_random_sizes(served)

    assert before == {"serving_default": count * len(devices)}
    assert compilations(served) == before
    assert all(is_right(x, y) for x, y in answers)


def test_parts_that_tensorflow_chooses_are_compiled_before_ready(serve):
    served = serve(PARTS)
    before = compilations(served)
    answers = ask_random_sizes(served)

    assert before["serving_default"] >= 2
    assert compilations(served) == before
    assert all(is_right(x, y) for x, y in answers)
