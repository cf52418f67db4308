"""Tiny SavedModels of every kind that Signet must serve, each made by an ``export_KIND(directory)`` function.

``export(kind, directory)`` writes one and returns its path. The kinds are named here without importing TensorFlow, so
that tests can be parametrized by them at no cost.
"""

import importlib
from pathlib import Path

_KINDS_BY_MODULE = {
    "tests.exports.kit": ("kit",),
}

_MODULES = {kind: module for module, kinds in _KINDS_BY_MODULE.items() for kind in kinds}

KINDS = tuple(_MODULES)


def export(kind: str, directory: Path) -> Path:
    """Write the SavedModel of this kind to ``directory/KIND`` and return that path."""
    function = getattr(importlib.import_module(_MODULES[kind]), f"export_{kind}")
    return function(directory / kind)
