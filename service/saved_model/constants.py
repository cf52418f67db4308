"""Turning large constants into variables, so that all signatures share one copy of them.

Every prepared callable has a graph of its own, and with it a copy of each Const node in it: one constant of 100 MB that
8 signatures capture was measured to take 1,900 MB. Variables live in the Session once. So a large constant that more
than one callable can reach is replaced, under the same name, by a read of a variable that is assigned once at load.
What only one callable reaches stays a constant, since TensorFlow can fold and pack those.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.framework.types_pb2 import DT_STRING

from service.saved_model.graph_index import GraphIndex, node_of
from service.saved_model.signature_defs import BoundSignature

LARGE = 64 * 1024
"""Bytes above which a constant is worth a variable."""

_CALLS = {
    "Case",
    "If",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "StatelessCase",
    "StatelessIf",
    "StatelessWhile",
    "While",
}
"""Ops whose functions run in the Session itself, where a variable can stand for a constant."""

_COMPILED = "_XlaMustCompile"

_Callable = tuple[str, str]
"""A callable runs some outputs of one signature; for counting, signature and node of one output stand for it."""


@dataclass(frozen=True)
class SharedConstant:
    """A constant that became a variable.

    Attributes:
        shared_name: the variable's name within the Session.
        value: what it must hold before the first run.
    """

    shared_name: str
    value: np.ndarray


@dataclass(frozen=True)
class Sharing:
    """What became of the large constants.

    Attributes:
        constants: those that became variables.
        copied_bytes: the size of those that several callables reach but that had to stay: functions which XLA compiles
            or which datasets run cannot read a variable in their place. Each callable copies them.
    """

    constants: tuple[SharedConstant, ...]
    copied_bytes: int


@dataclass(frozen=True)
class _Place:
    """A large Const node: the scope that holds it, and who can reach it."""

    node: NodeDef
    scope: Any  # the repeated field of NodeDefs that it lies in
    in_function: bool
    callables: frozenset[_Callable]
    movable: bool


def share_constants(
    graph: GraphDef, signatures: Mapping[str, BoundSignature], compiled: Collection[str] = ()
) -> Sharing:
    """Replace in ``graph`` the large constants that more than one callable can reach; equal ones share a variable.

    Args:
        graph: changed.
        signatures: that will be run.
        compiled: those of them that XLA will compile as a whole.
    """
    by_content: dict[bytes, list[_Place]] = defaultdict(list)
    for place in _places(graph, signatures, compiled):
        by_content[_digest(place.node.attr["value"].tensor)].append(place)
    constants = []
    copied_bytes = 0
    for number, places in enumerate(by_content.values()):
        if len(frozenset().union(*(place.callables for place in places))) < 2:
            continue
        copied_bytes += sum(_size(place.node) for place in places if not place.movable)
        movable = [place for place in places if place.movable]
        if movable:
            constant = SharedConstant(f"signet/constant/{number}", _value(movable[0].node.attr["value"].tensor))
            constants.append(constant)
            for place in movable:
                _replace(place, constant)
    return Sharing(tuple(constants), copied_bytes)


def _places(graph: GraphDef, signatures: Mapping[str, BoundSignature], compiled: Collection[str]) -> Iterator[_Place]:
    """Yield every large constant that a signature reaches."""
    index = GraphIndex(graph)
    scopes = [("", graph.node), *((name, function.node_def) for name, function in index.functions.items())]
    large = [
        (name, scope, node) for name, scope in scopes for node in scope if node.op == "Const" and _size(node) > LARGE
    ]
    if not large:
        return
    by_node, by_function = _reached_by(index, signatures)
    roots = [root for name in compiled if name in signatures for root in signatures[name].output_roots]
    fixed = _fixed_functions(index) | index.reach_functions(index.reach(roots))
    for name, scope, node in large:
        callables = by_function[name] if name else by_node[node.name]
        if callables:
            yield _Place(node, scope, name != "", frozenset(callables), name not in fixed)


def _reached_by(
    index: GraphIndex, signatures: Mapping[str, BoundSignature]
) -> tuple[dict[str, set[_Callable]], dict[str, set[_Callable]]]:
    """Return for each node of the graph, and for each function, the callables that can reach it."""
    by_node: dict[str, set[_Callable]] = defaultdict(set)
    by_function: dict[str, set[_Callable]] = defaultdict(set)
    for name, bound in signatures.items():
        for output, tensor in bound.outputs.items():
            nodes = index.reach([node_of(tensor)])
            for node in nodes:
                by_node[node].add((name, output))
            for function in index.reach_functions(nodes):
                by_function[function].add((name, output))
    return by_node, by_function


def _fixed_functions(index: GraphIndex) -> set[str]:
    """Return the functions that must keep their constants, with all that they call."""
    fixed = [name for name, function in index.functions.items() if is_compiled(function)]
    bodies = (function.node_def for function in index.functions.values())
    for nodes in (index.nodes.values(), *bodies):
        for node in nodes:
            runs_in_session = (node.op in _CALLS or node.op in index.functions) and not is_compiled(node)
            if not runs_in_session:
                fixed.extend(index.called(node))
    return set(index.callees_first(fixed))


def is_compiled(owner: NodeDef | FunctionDef) -> bool:
    """Whether a function or its call was exported to be compiled by XLA."""
    return _COMPILED in owner.attr and owner.attr[_COMPILED].b


def _replace(place: _Place, constant: SharedConstant) -> None:
    """Turn the Const node into an Identity of the variable's value, under its own name and with its own control inputs.

    A function body names outputs as ``node:output:0``. Const and Identity both call theirs ``output``, so that the
    nodes which read the constant stay as they are.
    """
    node = place.node
    dtype = node.attr["dtype"].type
    handle = place.scope.add(name=f"{node.name}/signet_handle", op="VarHandleOp", device=node.device)
    handle.attr["shared_name"].s = constant.shared_name.encode()
    handle.attr["container"].s = b""
    handle.attr["dtype"].type = dtype
    handle.attr["shape"].shape.CopyFrom(node.attr["value"].tensor.tensor_shape)
    read = place.scope.add(name=f"{node.name}/signet_read", op="ReadVariableOp", device=node.device)
    read.input.extend([f"{handle.name}:resource:0" if place.in_function else handle.name, *node.input])
    read.attr["dtype"].type = dtype
    node.op = "Identity"
    node.input[:] = [f"{read.name}:value:0" if place.in_function else read.name]
    del node.attr["value"], node.attr["dtype"]
    node.attr["T"].type = dtype


def _size(node: NodeDef) -> int:
    """Return the bytes that the constant takes when it is expanded; strings count as they are written."""
    tensor = node.attr["value"].tensor
    if tensor.dtype == DT_STRING:
        return int(tensor.ByteSize())
    return int(math.prod(dim.size for dim in tensor.tensor_shape.dim) * tf.dtypes.as_dtype(tensor.dtype).size)


def _digest(tensor: TensorProto) -> bytes:
    """Return a value that only equal tensors share; the export may hold one tensor once per signature that uses it."""
    digest = hashlib.sha256(f"{tensor.dtype} {tensor.tensor_shape}".encode())
    digest.update(tensor.tensor_content or tensor.SerializeToString(deterministic=True))
    return digest.digest()


def _value(tensor: TensorProto) -> np.ndarray:
    """Return the constant's value; large ones are viewed, since ``make_ndarray`` would copy them once more."""
    if not tensor.tensor_content:
        return np.asarray(tf.make_ndarray(tensor))
    shape = tuple(dim.size for dim in tensor.tensor_shape.dim)
    return np.frombuffer(tensor.tensor_content, tf.dtypes.as_dtype(tensor.dtype).as_numpy_dtype).reshape(shape)
