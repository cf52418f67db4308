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

_CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
_NO_SHAPES = "_disable_call_shape_inference"


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
    """Import each function alone, then the nodes: TensorFlow holds the interpreter for the length of each call."""
    nodes = _nodes_alone(graph_def)
    graph = tf.Graph()
    with graph.as_default(), placed(device):
        try:
            for function in graph_def.library.function:
                piece = GraphDef(versions=graph_def.versions)
                piece.library.function.append(function)
                tf.graph_util.import_graph_def(piece, name="")
            tf.graph_util.import_graph_def(nodes, name="", producer_op_list=producer_ops)
        except (tf.errors.OpError, ValueError) as error:
            raise LoadError(f"the graph cannot be imported: {shorten(str(error))}") from error
    return graph


def _nodes_alone(graph_def: GraphDef) -> GraphDef:
    """Return the graph without functions, and with calls whose shapes are not looked for.

    To find them, TensorFlow walks the function's whole body for each call: 25 ms for each signature of EfficientNet-B0.
    Nobody asks: signatures say their shapes, and what is optimized before a run has its own way to find them.
    """
    nodes = GraphDef(versions=graph_def.versions, node=graph_def.node)
    nodes.library.gradient.extend(graph_def.library.gradient)
    for node in nodes.node:
        if node.op in _CALLS:
            node.attr[_NO_SHAPES].b = True
    return nodes
