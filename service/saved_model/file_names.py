"""Where the names of files that a graph reads come from: from the model's own assets, or from elsewhere."""

from collections.abc import Collection, Iterator

import tensorflow as tf
from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.saved_model.graph_index import GraphIndex, node_of

_PASS_ON = {"Identity", "StopGradient", "Reshape", "ExpandDims", "Squeeze"}
_USES_OF_VARIABLE = {"AssignVariableOp", "ReadVariableOp", "VarIsInitializedOp"}
_FIRST_ARGUMENT = {
    "Case": 1,
    "If": 1,
    "PartitionedCall": 0,
    "StatefulPartitionedCall": 0,
    "StatelessCase": 1,
    "StatelessIf": 1,
}
"""The input that becomes the first argument of the functions that a node calls."""

_Tensor = tuple[str | None, str]
"""The scope, which is a function or None for the graph itself, and the name of an input there."""


class FileNames:
    """Follows names of files back through a graph and the calls of its functions."""

    def __init__(self, index: GraphIndex, *, fed: Collection[str], own_files: Collection[str]) -> None:
        """Look into a graph.

        Args:
            index: of the graph.
            fed: nodes that are fed with the names of the model's own files while it is set up.
            own_files: the names of the model's own files. The empty name is that of no file.
        """
        self._index = index
        self._fed = fed
        self._own_files = {"", *own_files}
        self._calls: dict[str, list[tuple[str | None, NodeDef]]] | None = None

    def are_own(self, scope: str | None, tensor: str) -> bool:
        """Whether a tensor can hold no other names than those of the model's own files."""
        seen: set[_Tensor] = set()
        stack: list[_Tensor] = [(scope, tensor)]
        while stack:
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            sources = self._sources(*current)
            if sources is None:
                return False
            stack.extend(sources)
        return True

    def _sources(self, scope: str | None, tensor: str) -> list[_Tensor] | None:
        """Return the tensors that a name comes from, nothing when it is known to be good, None when it is not."""
        name = node_of(tensor)
        if scope is None and name in self._fed:
            return []
        node = self._nodes(scope).get(name)
        if node is None:
            return None if scope is None else self._arguments(scope, name)
        if node.op in _PASS_ON:
            return [(scope, node.input[0])]
        if node.op == "ReadVariableOp" and scope is None:
            return self._assigned(node_of(node.input[0]))
        return [] if node.op == "Const" and self._names_own_files(node) else None

    def _nodes(self, scope: str | None) -> dict[str, NodeDef]:
        if scope is None:
            return self._index.nodes
        return {node.name: node for node in self._index.functions[scope].node_def}

    def _names_own_files(self, node: NodeDef) -> bool:
        values = tf.make_ndarray(node.attr["value"].tensor)
        return values.dtype == object and all(
            value.decode("utf-8", "replace") in self._own_files for value in values.flat
        )

    def _assigned(self, variable: str) -> list[_Tensor] | None:
        """Return what the graph assigns to a variable, None when it may get a value in any other way.

        TensorFlow 2 keeps the paths of assets in variables, which the init op assigns first.
        """
        node = self._index.nodes.get(variable)
        if node is None or node.op != "VarHandleOp" or self._has_another_handle(node):
            return None
        users = [user for _, user in self._all_nodes() if variable in map(node_of, user.input)]
        if any(user.op not in _USES_OF_VARIABLE for user in users):
            return None
        return [(None, user.input[1]) for user in users if user.op == "AssignVariableOp"] or None

    def _has_another_handle(self, node: NodeDef) -> bool:
        handles = [other for _, other in self._all_nodes() if other.op == "VarHandleOp"]
        return sum(_variable(other) == _variable(node) for other in handles) > 1

    def _arguments(self, function: str, name: str) -> list[_Tensor] | None:
        """Return what every call of a function gives for an argument, None when a call cannot be seen through."""
        arguments = [argument.name for argument in self._index.functions[function].signature.input_arg]
        if name not in arguments:
            return None
        given: list[_Tensor] = []
        for scope, node in self._calls_of(function):
            first = 0 if node.op == function else _FIRST_ARGUMENT.get(node.op)
            if first is None:
                return None
            given.append((scope, node.input[first + arguments.index(name)]))
        return given

    def _calls_of(self, function: str) -> list[tuple[str | None, NodeDef]]:
        if self._calls is None:
            self._calls = {}
            for scope, node in self._all_nodes():
                for called in self._index.called(node):
                    self._calls.setdefault(called, []).append((scope, node))
        return self._calls.get(function, [])

    def _all_nodes(self) -> Iterator[tuple[str | None, NodeDef]]:
        yield from ((None, node) for node in self._index.nodes.values())
        for name, function in self._index.functions.items():
            yield from ((name, node) for node in function.node_def)


def _variable(handle: NodeDef) -> bytes:
    """Return by what handles of one variable know each other."""
    return bytes(handle.attr["shared_name"].s) or handle.name.encode()
