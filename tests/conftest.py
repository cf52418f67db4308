"""What many tests share: SavedModels are exported once per session."""

import io
import logging
import os
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import models

# Read when TensorFlow is first imported, by whichever test needs it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("TF_XLA_FLAGS", "--tf_xla_cpu_global_jit --tf_xla_enable_lazy_compilation=false")


SHARED_SERVERS = {"servers", "digits_server"}


@pytest.hookimpl(tryfirst=True)  # before the plugin that shares the work reads the marks
def pytest_collection_modifyitems(items):
    """Let one of the processes that share the work run all tests of a shared server, and those of a file together."""
    for item in items:
        group = "shared servers" if SHARED_SERVERS & set(item.fixturenames) else item.nodeid.split("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Keep what was captured in a form that can be told to another process: names of files may be no Unicode."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """Return a function that exports a kind of SavedModel at its first use and returns its path."""
    paths = {}

    def exported(kind):
        if kind not in paths:
            paths[kind] = models.export(kind, tmp_path_factory.mktemp("exports"))
        return paths[kind]

    return exported


@dataclass(frozen=True)
class Export:
    directory: Path
    model: Any  # as loaded; its signatures live no longer than it does
    training: Any = field(repr=False)
    held_out: Any = field(repr=False)
    printed: str  # by the program that made it

    @property
    def signatures(self):
        return self.model.signatures


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """One trained and exported digits model for all tests."""
    import tensorflow as tf

    from clients.digits.__main__ import main
    from clients.digits.pictures import load_pictures

    directory = tmp_path_factory.mktemp("digits")
    training, held_out = load_pictures()
    with redirect_stdout(io.StringIO()) as printed:
        main([str(directory)])
    return Export(directory, tf.saved_model.load(str(directory)), training, held_out, printed.getvalue())


@pytest.fixture(autouse=True)
def _logging_as_before():
    """Undo what a test changes in the process's logging; a handler would write to a stream that is closed by then."""
    root = logging.getLogger()
    before = list(root.handlers), root.level, {name: logging.getLogger(name).level for name in ("service", "batching")}
    yield
    root.handlers[:], level, levels = before
    root.setLevel(level)
    for name, previous in levels.items():
        logging.getLogger(name).setLevel(previous)
