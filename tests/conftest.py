"""What many tests share: SavedModels are exported once per session."""

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
