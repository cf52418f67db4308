"""Brings a graph into TensorFlow; a signature whose nodes TensorFlow refuses must not take the others with it."""

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.op_def_pb2 import OpList

from service.devices import Device
from service.errors import LoadError
from service.saved_model.model_errors import shorten
from service.saved_model.placement import placed
from service.saved_model.pruning import prune
from service.saved_model.refinement import RefinedBlueprint


def import_served(blueprint: RefinedBlueprint, device: Device | None) -> tuple[tf.Graph, dict[str, str]]:
    """Import the blueprint's graph onto a device, or of it what TensorFlow takes.

    Returns:
        The graph, and for each signature that was left out the reason.

    Raises:
        LoadError: TensorFlow refuses every signature, or what sets the state up.
    """
    try:
        return _import(blueprint.graph, blueprint.producer_ops, device), {}
    except LoadError:
        failures = _why_not_imported(blueprint)
        if len(failures) in (0, len(blueprint.signatures)):
            raise
    imported = [bound for name, bound in blueprint.signatures.items() if name not in failures]
    roots = [root for part in (imported, blueprint.setup) for one in part for root in one.roots]
    return _import(prune(blueprint.graph, roots), blueprint.producer_ops, device), failures


def _why_not_imported(blueprint: RefinedBlueprint) -> dict[str, str]:
    """Try the part of each signature alone."""
    failures = {}
    for name, bound in blueprint.signatures.items():
        try:
            _import(prune(blueprint.graph, bound.roots), blueprint.producer_ops, None)
        except LoadError as error:
            failures[name] = str(error)
    return failures


def _import(graph_def: GraphDef, producer_ops: OpList | None, device: Device | None) -> tf.Graph:
    graph = tf.Graph()
    with graph.as_default(), placed(device):
        try:
            tf.graph_util.import_graph_def(graph_def, name="", producer_op_list=producer_ops)
        except (tf.errors.OpError, ValueError) as error:
            raise LoadError(f"the graph cannot be imported: {shorten(str(error))}") from error
    return graph
