"""One copy of the weights, however many signatures, callables or loads; measured in processes of their own."""

import gc
import subprocess
import sys

import pytest

from service import saved_model
from tests.exports.weights import export_weights

PREAMBLE = """
import sys
from pathlib import Path
import numpy as np
from service import saved_model

def rss_mb(field="VmRSS"):
    line = next(line for line in open("/proc/self/status") if line.startswith(field + ":"))
    return int(line.split()[1]) / 1024

def load(path):
    return saved_model.load(Path(path), model="model", version=1)

row = np.arange(8, dtype=np.int32)
"""


def measure(program, *arguments):
    """Run a program and return the numbers that it prints."""
    command = [sys.executable, "-c", PREAMBLE + program, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(number) for number in run.stdout.split()]


@pytest.mark.parametrize(("as_constants", "peak_slope"), [(False, 1.05), (True, 2.1)])
def test_eight_signatures_cost_what_one_costs(as_constants, peak_slope, tmp_path):
    program = """
saved_model.describe(Path(sys.argv[1]))  # TensorFlow is there, weights are not
servable = load(sys.argv[2])  # neither are the first load's costs part of the slope
servable.close()
before = rss_mb()
servable = load(sys.argv[1])
servable.run("s0", {"row": row}, ["y"])
one, peak = rss_mb(), rss_mb("VmHWM")
for name in servable.signatures:
    for _ in range(3):
        servable.run(name, {"row": row}, ["y"])
print(before, one, rss_mb(), peak)
"""
    large = export_weights(tmp_path / "large", 200, as_constants=as_constants)
    small = export_weights(tmp_path / "small", 1, as_constants=as_constants)

    before, one, all_of_them, peak = measure(program, large, small)

    assert all_of_them < one * 1.05
    assert (one - before) / 200 < 1.05
    assert (peak - before) / 200 < peak_slope


@pytest.mark.slow
def test_repeated_loads_leave_no_memory_behind(tmp_path):
    program = """
sizes = []
for _ in range(12):
    servable = load(sys.argv[1])
    for name in servable.signatures:
        servable.run(name, {"row": row}, ["y"])
    servable.close()
    sizes.append(rss_mb())
print(*sizes)
"""
    path = export_weights(tmp_path / "model", 20, as_constants=True)

    sizes = measure(program, path)

    # TensorFlow's allocator keeps what one or two loads needed and uses it again.
    assert max(sizes[4:]) < max(sizes[:4]) + 5


@pytest.mark.slow
def test_many_sets_of_outputs_leave_no_memory_behind(exports):
    program = """
import itertools
servable = load(sys.argv[1])
outputs = [spec.name for spec in servable.signatures["many"].outputs]
x = np.ones((2, 4), np.float32)

def ask(sets):
    for wanted in sets:
        servable.run("many", {"x": x}, wanted)
    return rss_mb()

triples = list(itertools.combinations(outputs, 3))
print(ask(triples[:40]), ask(triples[40:120]))
"""
    after_40, after_120 = measure(program, exports("kit"))

    assert after_120 < after_40 + 10


@pytest.mark.parametrize("kind", ["module", "keras_in_module"])
def test_load_and_close_leave_no_objects_behind(kind, exports):
    """Of both ways to read a SavedModel; TensorFlow's registry of gradients would keep all functions of the second."""

    def count():
        saved_model.load(exports(kind), model="model", version=1).close()
        return len(gc.get_objects())

    count()
    before = count()

    assert count() < before + 100


def test_collections_spare_what_tensorflow_made_when_it_started(exports):
    saved_model.load(exports("module"), model="model", version=1).close()
    frozen = gc.get_freeze_count()

    assert frozen > 100_000
    assert len(gc.get_objects()) < frozen


@pytest.mark.slow
def test_six_entries_of_one_export_cost_one_copy_and_give_it_back(tmp_path):
    program = """
import os
from service.layouts import find_models
from service.load_plan import make_plan
from service.loading import VersionLoader
from service.repository import Repository
from service.settings import Settings

os.environ["TF_ONEDNN_USE_SYSTEM_ALLOCATOR"] = "1"  # else TensorFlow keeps what is freed for its next load
repository = Repository(VersionLoader(Settings()).load)
first, *others = find_models(Path(sys.argv[1]))

def apply(source):
    assert repository.apply(make_plan(source)) == {}
    return rss_mb()

load(sys.argv[2]).close()  # the first load's costs are no part of the copy
before, one = rss_mb(), apply(first)
six = [apply(source) for source in others][-1]
for name in repository.model_names()[1:]:
    repository.unload(name)
repository.close(30)
print(before, one, six, rss_mb())
"""
    large = export_weights(tmp_path / "large", 120, as_constants=False, signatures=6)
    small = export_weights(tmp_path / "small", 1, as_constants=False)
    for number in range(6):
        version = tmp_path / "models" / f"m{number}" / "1"
        version.mkdir(parents=True)
        (version / "model.savedmodel").symlink_to(large)
        signature = f'parameters {{ key: "TF_SIGNATURE_DEF" value {{ string_value: "s{number}" }} }}'
        (version.parent / "config.pbtxt").write_text(signature)

    before, one, six, after = measure(program, tmp_path / "models", small)

    assert one - before > 100, "the copy is there"
    assert six - one < 25
    assert after - before < 25


def test_what_requests_of_megabytes_free_is_there_for_the_next_ones(tmp_path):
    program = """
import resource
servable = load(sys.argv[1])

def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        blocks = [bytes(15_000_000) for _ in range(8)]
        del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

new_pages()
print(new_pages())
"""
    (pages,) = measure(program, export_weights(tmp_path / "small", 1, as_constants=False))

    assert pages < 5 * 8 * 15_000_000 / 4096 / 4
