"""Keeping TensorFlow's registry of gradients from growing."""

import contextlib
from collections.abc import Iterator

from tensorflow.python.framework import ops


@contextlib.contextmanager
def new_gradients_forgotten() -> Iterator[None]:
    """Take out of TensorFlow's registry the gradients that are registered meanwhile.

    Nobody asks a served model for gradients; each holds the graph of its function, and TensorFlow never forgets one.
    """
    registry = ops.gradient_registry
    before = set(registry.list())
    try:
        yield
    finally:
        held = getattr(registry, "_registry", {})  # there is no public way to take an entry out
        for name in set(registry.list()) - before:
            held.pop(name, None)
