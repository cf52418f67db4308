"""The package's public face: cheap to import, describes without weights, fixes settings once."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from service import saved_model
from service.errors import LoadError
from service.saved_model import process
from service.saved_model.options import RuntimeOptions
from service.signature import Effect


def test_importing_the_package_does_not_import_tensorflow():
    program = "import sys, service.saved_model; sys.exit('tensorflow' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_description_needs_no_weights(exports, tmp_path):
    path = shutil.copytree(exports("counter"), tmp_path / "counter")
    shutil.rmtree(path / "variables")

    description = saved_model.describe(path)

    assert {name: signature.effect for name, signature in description.signatures.items()} == {
        "increment": Effect.WRITING,
        "read": Effect.PURE,
        "recall": Effect.PURE,
        "store": Effect.WRITING,
    }


@pytest.mark.parametrize("kind", ["kit", "keras_in_module", "tf1_examples", "unknown_op", "sparse"])
def test_a_description_agrees_with_the_loaded_model(kind, exports, served):
    description = saved_model.describe(exports(kind))

    assert dict(description.signatures) == dict(served(kind).signatures)
    assert dict(description.unavailable) == dict(served(kind).unavailable)


def test_the_log_says_how_a_model_was_loaded_and_what_became_of_it(exports, caplog):
    caplog.set_level("INFO", logger="service.saved_model")

    saved_model.load(exports("captured_constants"), model="model", version=7).close()

    line = next(record.getMessage() for record in caplog.records if "version 7" in record.getMessage())
    assert "loaded from its meta graph; signatures: first, second, small" in line
    assert "functions kept; large constants shared as variables: 2 (0.4 MB)" in line


def test_settings_that_differ_from_the_first_are_refused(monkeypatch):
    monkeypatch.setattr(process, "_chosen", [])
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "")
    saved_model.configure(RuntimeOptions(intra_op_threads=3))
    saved_model.configure(RuntimeOptions(intra_op_threads=3))

    with pytest.raises(LoadError, match="intra_op_threads is 3, not 5"):
        saved_model.configure(RuntimeOptions(intra_op_threads=5))


def test_without_a_place_for_temporary_files_it_is_said_what_to_mount(monkeypatch):
    """A container with a read-only root and nothing at /tmp, in which TensorFlow cannot even be imported."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/nowhere"])

    with pytest.raises(LoadError, match=r"No usable temporary directory .*'/proc/nowhere'.* at /tmp .*TMPDIR"):
        saved_model.configure(RuntimeOptions())


def test_settings_are_in_the_environment_before_tensorflow_reads_them():
    program = """
import os
from service import saved_model
saved_model.configure(saved_model.RuntimeOptions(intra_op_threads=3, inter_op_threads=4, omp_threads=5))
names = "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "OMP_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL"
print(*(os.environ[name] for name in names))
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["3", "4", "5", "2"]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (Path.touch, "{}: the op library cannot be loaded: "),
        pytest.param(os.mkfifo, "the op library {}: is a named pipe", marks=pytest.mark.slow),
    ],
)
def test_an_op_library_that_cannot_be_loaded_is_named(tmp_path, make, told):
    library = tmp_path / "no_library.so"
    make(library)
    program = f"""
from pathlib import Path
from service import saved_model
from service.errors import LoadError
saved_model.configure(saved_model.RuntimeOptions(op_libraries=(Path({str(library)!r}),)))
try:
    saved_model.describe(Path({str(tmp_path)!r}))
except LoadError as error:
    print(error)
"""

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert run.stdout.startswith(told.format(library))


def test_negative_threads_are_refused():
    with pytest.raises(ValueError, match="omp_threads must not be negative, not -1"):
        RuntimeOptions(omp_threads=-1)
