"""Tiny SavedModels of every kind that Signet must serve, each made by an ``export_KIND(directory)`` function.

``export(kind, directory)`` writes one and returns its path. The kinds are named here without importing TensorFlow, so
that tests can be parametrized by them at no cost.
"""

import importlib
from pathlib import Path

_KINDS_BY_MODULE = {
    "tests.exports.kit": ("kit",),
    "tests.exports.modules": (
        "module",
        "several",
        "captured_constants",
        "compiled_constants",
        "deep",
        "counter",
        "random",
        "default_value",
        "odd_names",
        "effects",
    ),
    "tests.exports.keras_models": ("keras", "keras_in_module", "optimizer"),
    "tests.exports.tf1": (
        "tf1_variables",
        "tf1_tables",
        "tf1_examples",
        "tensors",
        "assign_before_read",
    ),
    "tests.exports.tf1_classics": (
        "tf1_control_flow",
        "tf1_partitioned",
        "tf1_main_op",
        "tf1_pipeline",
        "tf1_unready",
    ),
    "tests.exports.edited": ("broken_signature", "refused_node", "newer_release", "unknown_op", "sparse", "text_form"),
    "tests.exports.faults": ("faults", "notes"),
    "tests.exports.weights": ("weights_4_mb_variables", "weights_4_mb_constants"),
}

_MODULES = {kind: module for module, kinds in _KINDS_BY_MODULE.items() for kind in kinds}

KINDS = tuple(_MODULES)


def export(kind: str, directory: Path) -> Path:
    """Write the SavedModel of this kind to ``directory/KIND`` and return that path."""
    function = getattr(importlib.import_module(_MODULES[kind]), f"export_{kind}")
    return function(directory / kind)


class Exports:
    """Exports each kind at most once, on first use."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._paths: dict[str, Path] = {}

    def __call__(self, kind: str) -> Path:
        """Return the SavedModel of this kind. Copy it before you change it: other tests read it, too."""
        if kind not in self._paths:
            self._paths[kind] = export(kind, self._directory)
        return self._paths[kind]
