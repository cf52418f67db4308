"""Lets XLA compile a whole signature: its part of the graph becomes one function, which is called in its place."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import tensorflow as tf
from tensorflow.core.framework.attr_value_pb2 import NameAttrList
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.devices import Device
from service.errors import LoadError
from service.saved_model.constants import is_compiled
from service.saved_model.gradients import new_gradients_forgotten
from service.saved_model.graph_index import GraphIndex, node_of
from service.saved_model.model_errors import shorten
from service.saved_model.op_registry import op_def
from service.saved_model.placement import placed
from service.saved_model.pruning import prune
from service.saved_model.signature_defs import BoundSignature


def compile_signature(
    graph: tf.Graph, graph_def: GraphDef, bound: BoundSignature, device: Device | None
) -> BoundSignature:
    """Add a compiled function for a signature to a graph; it is compiled when it first runs with inputs of a shape.

    Args:
        graph: made from ``graph_def``.
        graph_def: with all that the signature needs.
        bound: the signature.
        device: where the graph lies.

    Returns:
        The same signature, bound to the outputs of the function. Variables stay where they are: their handles are
        arguments.

    Raises:
        LoadError: the part of the graph cannot be made a function, such as one with reference variables.
    """
    inputs = list(dict.fromkeys(bound.inputs.values()))
    fetches = list(dict.fromkeys(tensor for tensor in bound.outputs.values() if tensor not in inputs))
    index = GraphIndex(graph_def).fed(inputs)
    given = [*inputs, *(f"{name}:0" for name in _variables(index, bound))]
    body = _body(graph_def, index, bound, given)

    def call(*arguments: tf.Tensor) -> Any:
        return tf.graph_util.import_graph_def(
            body, input_map=dict(zip(given, arguments, strict=True)), return_elements=fetches, name=""
        )

    try:
        with graph.as_default(), placed(device), new_gradients_forgotten():
            tensors = [graph.get_tensor_by_name(name) for name in given]
            results = tf.function(call, jit_compile=True, autograph=False)(*tensors)
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise LoadError(shorten(str(error))) from error
    names = {fetch: result.name for fetch, result in zip(fetches, results, strict=True)}
    return replace(bound, outputs={name: names.get(tensor, tensor) for name, tensor in bound.outputs.items()})


def holds_compiled_functions(index: GraphIndex, bound: BoundSignature) -> bool:
    """Whether parts of a signature were exported with ``jit_compile``."""
    names = index.reach(bound.output_roots)
    functions = (index.functions[name] for name in index.reach_functions(names))
    return any(map(is_compiled, index.reached_nodes(names))) or any(map(is_compiled, functions))


def _variables(index: GraphIndex, bound: BoundSignature) -> list[str]:
    """Return the nodes of the graph itself that hold state; a compiled function takes what they hold as an argument."""
    reached = (index.nodes[name] for name in sorted(index.reach(bound.output_roots)) if name in index.nodes)
    known = ((node, op_def(node.op)) for node in reached)
    return [node.name for node, op in known if op is not None and op.is_stateful and not op.input_arg]


def _body(graph_def: GraphDef, index: GraphIndex, bound: BoundSignature, given: Sequence[str]) -> GraphDef:
    """Return the part of the graph that the signature runs, without the nodes whose values are given."""
    part = prune(graph_def, bound.output_roots)
    run = index.reach(bound.output_roots) - {node_of(tensor) for tensor in given}
    body = GraphDef(versions=part.versions, library=part.library)
    body.node.extend(node for node in part.node if node.name in run)
    for node in body.node:
        node.attr.pop("_class", None)  # colocation with a node that is an argument now
    _make_own_functions(body)
    return body


def _make_own_functions(graph: GraphDef) -> None:
    """Give the functions names of their own, and keep their loops and branches, which XLA wants whole.

    The same functions as they are split loops and branches into single nodes, which suits TensorFlow and not XLA.
    """
    names = {function.signature.name: f"{function.signature.name}_whole" for function in graph.library.function}
    for function in graph.library.function:
        function.signature.name = names[function.signature.name]
    for gradient in graph.library.gradient:
        gradient.function_name = names.get(gradient.function_name, gradient.function_name)
        gradient.gradient_func = names.get(gradient.gradient_func, gradient.gradient_func)
    for nodes in (graph.node, *(function.node_def for function in graph.library.function)):
        for node in nodes:
            node.op = names.get(node.op, node.op)
            node.attr.pop("_lower_using_switch_merge", None)
            for called in _called(node):
                called.name = names.get(called.name, called.name)


def _called(node: NodeDef) -> Iterator[NameAttrList]:
    for value in node.attr.values():
        kind = value.WhichOneof("value")
        if kind == "func":
            yield value.func
        elif kind == "list":
            yield from value.list.func
