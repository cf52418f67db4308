"""A whole service over several devices: every one of them works, and what they answer is what one device answers."""

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

REQUESTS = 200


@pytest.fixture
def serve(export, monkeypatch):
    """Return a function that serves a SavedModel on devices, without batches; it is closed when the test ends."""
    repositories = []

    def serve(kind, devices):
        monkeypatch.setattr(saved_model, "devices", DeviceChoice.parse(devices).cpus)
        made = Repository(VersionLoader(Settings(default_max_batch_size=0)).load)
        repositories.append(made)
        made.add(ModelSource("clip", {1: export(kind)}, None))
        assert made.load("clip") == []
        return Serving(made, lambda: True)

    yield serve
    for made in repositories:
        made.close(WAIT_S)


def requests():
    chosen, values = random.Random(1), np.random.default_rng(1)
    return [{"x": values.normal(size=(chosen.randint(1, 9), 4)).astype(np.float32)} for _ in range(REQUESTS)]


def answers(served):
    """Send all requests at once and return the answers in their order."""
    waiting = [served.submit(message(inputs))[0] for inputs in requests()]
    return [outputs(answer.wait()) for answer in waiting]


def answers_in_turn(served):
    """Send each request when the one before is answered."""
    return [outputs(served.submit(message(inputs))[0].wait()) for inputs in requests()]


def device_runs(served):
    return {labels[0]: int(count) for (name, *labels), count in samples(served).items() if "device_runs" in name}


def test_answers_of_two_devices_are_those_of_one_bit_by_bit(serve):
    expected = answers(serve("module", "cpu"))
    served = serve("module", "cpu:0,1")
    before = device_runs(served)

    assert answers(served) == expected
    assert answers_in_turn(served) == expected
    runs = device_runs(served)
    assert runs.keys() == {"CPU:0", "CPU:1"}
    assert sum(runs.values()) - sum(before.values()) == 2 * REQUESTS
    # Among free devices a run goes to the one that ran least so far, so those in turn level out what was before.
    assert max(runs.values()) - min(runs.values()) <= 1
