"""What TensorFlow is told of mixed precision, and what it does on a CPU that can compute with 16 bits."""

from pathlib import Path

import numpy as np
import pytest

from service import saved_model
from service.devices import CPU, DeviceChoice
from service.optimizations import Optimizations
from service.saved_model.sessions import session_config

MIXED = Optimizations(mixed_precision=True)
ON = 1


def rewrites(device, optimizations):
    options = session_config(device, optimizations).graph_options.rewrite_options
    return options.auto_mixed_precision, options.auto_mixed_precision_onednn_bfloat16


def test_device_gets_the_rewrite_that_suits_it():
    (gpu,) = DeviceChoice.parse("gpu").gpus(1)

    assert rewrites(gpu, MIXED) == (ON, 0)
    assert rewrites(CPU, MIXED) == (0, ON)
    assert rewrites(CPU, Optimizations()) == (0, 0)


@pytest.mark.skipif(
    "avx512_bf16" not in Path("/proc/cpuinfo").read_text(), reason="this CPU computes with 32 bits alone"
)
def test_products_are_computed_with_16_bits_and_answers_stay_close(exports, served):
    x = {"x": np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)}
    servable = saved_model.load(exports("module"), model="module", version=1, optimizations=MIXED)

    mixed = servable.run("serving_default", x, ["y"])["y"]
    full = served("module").run("serving_default", x, ["y"])["y"]

    servable.close()
    assert mixed.dtype == full.dtype
    assert 0 < np.abs(mixed - full).max() < 0.02 * np.abs(full).max()
