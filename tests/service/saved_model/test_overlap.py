"""Workers overlap: runs of one copy of a model are in progress at a time, and none holds up what others need."""

import threading

import numpy as np
import pytest

from clients.gpu_check.export import export_meeting
from service import saved_model
from service.devices import CPU, DeviceChoice, Instances
from service.saved_model.placement import keeps_to_one_thread

WAIT_S = 30
(GPU,) = DeviceChoice.parse("gpu").gpus(1)
SECOND_CPU = DeviceChoice.parse("cpu:0,1").cpus()[1]


@pytest.fixture
def meeting(tmp_path):
    """An export with two signatures of which each gives the other what it waits for, so that neither ends alone."""
    export_meeting(tmp_path / "meeting")
    return tmp_path / "meeting"


@pytest.fixture
def load():
    """Return a function that loads an export with two workers on a device; all are closed."""
    loaded = []

    def load(path, device):
        loaded.append(saved_model.load(path, model="m", version=1, instances=[Instances(device, 2)]))
        return loaded[-1]

    yield load
    for servable in loaded:
        servable.close()


@pytest.mark.parametrize("device", [CPU, SECOND_CPU, None], ids=str)
def test_two_runs_of_one_copy_are_in_progress_at_a_time(meeting, load, device):
    servable = load(meeting, device)
    answers = {}

    def run(name, value):
        answers[name] = float(servable.run(name, {"x": np.float32(value)}, ["y"])["y"])

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in (("left", 1), ("right", 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)

    assert answers == {"left": 2.0, "right": 1.0}


@pytest.mark.parametrize(("device", "keeps"), [(CPU, True), (SECOND_CPU, True), (GPU, False), (None, False)], ids=str)
def test_runs_keep_to_one_thread_only_where_none_waits_for_copies(device, keeps):
    assert keeps_to_one_thread(device) is keeps


@pytest.mark.parametrize(("device", "inline"), [(CPU, True), (None, False)], ids=str)
def test_signature_is_run_accordingly(export, load, device, inline):
    runner = load(export("module"), device)._graph.live.runners["serving_default"]

    assert runner._inline is inline
