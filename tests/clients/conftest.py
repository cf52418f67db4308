"""One trained and exported digits model for all tests here."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from clients.digits.pictures import Pictures, load_pictures


@dataclass(frozen=True)
class Export:
    directory: Path
    model: Any  # as loaded; its signatures live no longer than it does
    training: Pictures = field(repr=False)
    held_out: Pictures = field(repr=False)

    @property
    def signatures(self):
        return self.model.signatures


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    import tensorflow as tf

    from clients.digits.export import export
    from clients.digits.training import train

    directory = tmp_path_factory.mktemp("digits")
    training, held_out = load_pictures()
    export(train(training, held_out), directory)
    return Export(directory, tf.saved_model.load(str(directory)), training, held_out)
