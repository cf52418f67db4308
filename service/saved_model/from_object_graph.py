"""The second way to read a SavedModel: its objects, as ``tf.saved_model.load`` does.

It restores each variable through its object, which covers what an export's own restore function leaves out: a Keras 3
model inside a ``tf.Module``. It fails on exports whose objects need their Python classes, such as those that keep an
optimizer's state; hence it is only tried when ``from_meta_graph`` does not serve every signature.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tensorflow as tf

from service.errors import LoadError
from service.saved_model.blueprint import Blueprint, SetupStep
from service.saved_model.files import MetaGraphFile, asset_feeds
from service.saved_model.gradients import new_gradients_forgotten
from service.saved_model.memory import collections_paused
from service.saved_model.model_errors import shorten
from service.saved_model.signature_defs import BoundSignature


def read(exported: MetaGraphFile, signatures: Mapping[str, BoundSignature]) -> Blueprint:
    """Return a graph in which each signature function was called on placeholders, and the ops that restore its state.

    Raises:
        BrokenFilesError: an asset is missing.
        LoadError: ``tf.saved_model.load`` cannot read the export, or a signature gives something else than tensors.
    """
    graph = tf.Graph()
    with collections_paused(), graph.as_default(), new_gradients_forgotten():
        loaded = _load(exported.path, exported.tags)
        placed = {name: _place(loaded.signatures[name], bound) for name, bound in signatures.items()}
        variables = tf.compat.v1.global_variables()
        tables = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
    initializers = tuple(_names(variable.initializer for variable in variables))
    setup = (
        SetupStep("restoring the variables", initializers, {}, restores=True),
        SetupStep("initializing the tables", tuple(_names(tables)), {}),
    )
    return Blueprint(
        "object graph",
        graph.as_graph_def(),
        placed,
        tuple(step for step in setup if step.nodes),
        assets=frozenset(asset_feeds(exported.path, exported.take()).values()),
    )


def _load(path: Path, tags: frozenset[str]) -> Any:
    try:
        return tf.saved_model.load(str(path), tags=sorted(tags))
    except Exception as error:  # each kind of export fails with an error of its own kind
        raise LoadError(f"tf.saved_model.load fails: {type(error).__name__}: {shorten(str(error))}") from error


def _place(function: tf.types.experimental.ConcreteFunction, bound: BoundSignature) -> BoundSignature:
    """Call a signature function on placeholders and return the signature bound to the tensors that this made.

    Raises:
        LoadError: an output is no tensor: a signature of TensorFlow 1 may name an op that has none.
    """
    given = function.structured_input_signature[1]
    placeholders = {name: tf.compat.v1.placeholder(given[name].dtype, given[name].shape) for name in bound.inputs}
    results = function(**placeholders)
    for name in bound.outputs:
        if not tf.is_tensor(results[name]):
            raise LoadError(f"the output {name!r} of signature {bound.signature.name!r} is no tensor")
    return replace(
        bound,
        inputs={name: tensor.name for name, tensor in placeholders.items()},
        outputs={name: results[name].name for name in bound.outputs},
    )


def _names(operations: Iterable[object]) -> list[str]:
    """Return the names of nodes; a collection may hold ops, tensors and lists of both."""
    flat = [operation for operation in tf.nest.flatten(list(operations)) if operation is not None]
    return [operation.op.name if tf.is_tensor(operation) else operation.name for operation in flat]
