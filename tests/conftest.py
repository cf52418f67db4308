"""What many tests share: SavedModels are exported once per session."""

import logging
import os

import pytest

from tests import models

# Read when TensorFlow is first imported, by whichever test needs it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """Return a function that exports a kind of SavedModel at its first use and returns its path."""
    paths = {}

    def exported(kind):
        if kind not in paths:
            paths[kind] = models.export(kind, tmp_path_factory.mktemp("exports"))
        return paths[kind]

    return exported


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
