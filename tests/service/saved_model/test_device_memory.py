"""Limits of memory reach TensorFlow, and a model that does not fit fails alone. No GPU is here: what only one of them
does is checked by what TensorFlow is told."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from service import saved_model
from service.devices import DeviceChoice, GpuAllocator
from service.errors import LoadError, ResourceExhaustedError
from service.saved_model import process, sessions
from service.saved_model.device_memory import DeviceMemoryError, describe_gpu, gpu_options, reported_gpus
from service.saved_model.options import RuntimeOptions
from tests.exports.tf1 import save, signature_of, v1

GPUS = DeviceChoice.parse("gpu:1,3").gpus(4)


def too_large():
    """2^50 bytes, which no address space holds; from a random number, so that nothing is computed before the run."""
    return tf.reduce_sum(tf.fill([2**30, 2**18], tf.random.uniform([])))


@pytest.fixture
def export_with(tmp_path):
    """Return a function that exports a signature, and an init op that needs too much memory."""

    def export(*, large_signature=False, large_state=False):
        with v1.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None], name="x")
            signatures = {"serving_default": signature_of({"x": x}, {"y": x * 2.0})}
            if large_signature:
                signatures["large"] = signature_of({"x": x}, {"y": x + too_large()})
            init = too_large().op if large_state else None
            return save(session, tmp_path / "model", signatures, main_op=init)

    return export


def test_load_that_does_not_fit_says_so_and_what_is_served_goes_on(export_with, served):
    neighbour = served("module")

    with pytest.raises(LoadError, match="it does not fit into the memory: OOM when allocating tensor") as failure:
        saved_model.load(export_with(large_state=True), model="large", version=1)

    assert isinstance(failure.value.__cause__, DeviceMemoryError)
    x = np.ones((1, 4), np.float32)
    assert neighbour.run("serving_default", {"x": x}, ["y"])["y"].shape == (1, 3)


def test_run_that_does_not_fit_is_no_internal_error_and_the_next_is_answered(export_with):
    servable = saved_model.load(export_with(large_signature=True), model="large", version=1)
    x = np.ones(2, np.float32)

    with pytest.raises(ResourceExhaustedError, match="signature 'large': OOM when allocating tensor"):
        servable.run("large", {"x": x}, ["y"])

    assert servable.run("serving_default", {"x": x}, ["y"])["y"].tolist() == [2.0, 2.0]
    servable.close()


def test_memory_of_gpus_grows_without_a_limit():
    options = gpu_options(RuntimeOptions(), GPUS)

    assert options.allow_growth
    assert options.visible_device_list == "1,3"
    assert len(options.experimental.virtual_devices) == 0


def test_limit_holds_for_each_gpu():
    options = gpu_options(RuntimeOptions(gpu_memory_mib=2000), GPUS)

    assert options.allow_growth
    assert [list(each.memory_limit_mb) for each in options.experimental.virtual_devices] == [[2000.0], [2000.0]]


def test_session_of_the_cpu_leaves_gpus_alone():
    config = sessions.session_config(DeviceChoice.parse("cpu:0,1").cpus()[1])

    assert dict(config.device_count) == {"CPU": 2, "GPU": 0}


@pytest.mark.parametrize(
    ("allocator", "variable"), [(GpuAllocator.BFC, "unset"), (GpuAllocator.CUDA_MALLOC_ASYNC, "cuda_malloc_async")]
)
def test_allocator_is_chosen_before_tensorflow_starts(monkeypatch, allocator, variable):
    monkeypatch.setattr(process, "_chosen", [])
    environment = {"TF_GPU_ALLOCATOR": "unset"}
    monkeypatch.setattr(process.os, "environ", environment)

    saved_model.configure(RuntimeOptions(gpu_allocator=allocator))

    assert environment["TF_GPU_ALLOCATOR"] == variable
    assert environment["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"


def test_log_describes_a_gpu_as_tensorflow_reports_it():
    details = {"device_name": "NVIDIA H100", "compute_capability": (9, 0)}

    assert describe_gpu(GPUS[1], details, 2000 << 20) == (
        "GPU:3: NVIDIA H100, compute capability 9.0; TensorFlow may take up to 2000 MiB, and takes them as needed"
    )


def test_limit_in_the_log_is_that_of_the_sessions_own_number(monkeypatch):
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["zero", "one", "two", "three"])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: {"device_name": gpu})
    path = "/job:localhost/replica:0/task:0/device:GPU"
    devices = [SimpleNamespace(name=f"{path}:{index}", memory_limit_bytes=(index + 1) << 30) for index in (0, 1)]

    lines = reported_gpus(SimpleNamespace(list_devices=lambda: devices), GPUS)

    assert [line.split(", and")[0] for line in lines] == [
        "GPU:1: one; TensorFlow may take up to 1024 MiB",
        "GPU:3: three; TensorFlow may take up to 2048 MiB",
    ]
