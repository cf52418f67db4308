"""Finding one's way in a GraphDef: what nodes read, which functions they call, what is reached from where.

Every analysis at load walks graphs with this class. All walks keep their own stack: an export may nest functions deeper
than Python can recurse.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tensorflow.core.framework.function_pb2 import FunctionDef
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef
from tensorflow.python.framework import op_def_registry

_FED = "(fed)"
"""Stands for an input whose value does not come from the graph; no node can be called so."""

_INTERFACE: Final = "api_implements"


class GraphIndex:
    """An index over one GraphDef, which must not change while the index is used.

    Attributes:
        nodes: the nodes of the graph itself by name.
        functions: the functions of its library by name.
    """

    def __init__(self, graph: GraphDef) -> None:
        self.nodes: dict[str, NodeDef] = {node.name: node for node in graph.node}
        self.functions: dict[str, FunctionDef] = {
            function.signature.name: function for function in graph.library.function
        }
        self._called_by_function: dict[str, tuple[str, ...]] = {}
        self._gradients = {each.function_name: each.gradient_func for each in graph.library.gradient}
        self._by_interface: dict[bytes, list[str]] = {}
        for name, function in self.functions.items():
            if _INTERFACE in function.attr:
                self._by_interface.setdefault(function.attr[_INTERFACE].s, []).append(name)

    def fed(self, tensors: Iterable[str]) -> "GraphIndex":
        """Return the index as a run finds the graph that feeds these tensors: nothing behind them is run for them.

        Exports of TensorFlow 1 may feed what a queue or an iterator of the training gave.
        """
        cut = {tensor for tensor in tensors if self.nodes[node_of(tensor)].op != "Placeholder"}
        if not cut:
            return self
        index = GraphIndex(GraphDef())
        index.nodes = {name: _without_inputs(node, cut) for name, node in self.nodes.items()}
        index.functions = self.functions
        index._gradients, index._by_interface = self._gradients, self._by_interface
        return index

    def called(self, node: NodeDef) -> list[str]:
        """Return the functions that a node may call: as its op, or by attributes (branches, loop bodies, maps)."""
        names = [node.op] if node.op in self.functions else []
        for key in _function_attributes(node):
            value = node.attr[key]
            names.extend([value.func.name] if value.HasField("func") else [each.name for each in value.list.func])
        if node.op == "SymbolicGradient":
            names += [self._gradients[name] for name in names if name in self._gradients]
        return [name for name in names if name in self.functions]

    def called_by_function(self, name: str) -> tuple[str, ...]:
        """Return the functions that the body of a function may call, each once."""
        if name not in self._called_by_function:
            body = self.functions[name].node_def
            self._called_by_function[name] = tuple(
                dict.fromkeys(called for node in body for called in self.called(node))
            )
        return self._called_by_function[name]

    def reach(self, roots: Iterable[str]) -> set[str]:
        """Return the graph's nodes that the given nodes depend on, by data or by control, and themselves."""
        return dependencies(self.nodes, roots)

    def reach_functions(self, nodes: Iterable[str]) -> set[str]:
        """Return the names of all functions that the given nodes of the graph can call, however deep.

        Functions that implement the same interface count as called with each other: TensorFlow chooses by device.
        """
        direct = (name for node in nodes if node in self.nodes for name in self.called(self.nodes[node]))
        return _closure(direct, lambda name: (*self.called_by_function(name), *self._alternatives(name)))

    def _alternatives(self, function: str) -> Iterable[str]:
        attributes = self.functions[function].attr
        return self._by_interface[attributes[_INTERFACE].s] if _INTERFACE in attributes else ()

    def reached_nodes(self, roots: Iterable[str]) -> Iterator[NodeDef]:
        """Yield every node that a run of the given nodes may execute, those in function bodies included, each once.

        A function body counts whole: TensorFlow runs its stateful nodes even when nothing reads them.
        """
        return (node for _, node in self.reached(roots))

    def reached(self, roots: Iterable[str]) -> Iterator[tuple[str | None, NodeDef]]:
        """Yield the same nodes, each with the function in whose body it stands, None for the graph itself."""
        names = self.reach(roots)
        for name in names:
            if name in self.nodes:
                yield None, self.nodes[name]
        for function in self.reach_functions(names):
            for node in self.functions[function].node_def:
                yield function, node

    def callees_first(self, functions: Iterable[str]) -> list[str]:
        """Return the functions and all that they call, each after everything that it calls itself."""
        return _post_order(functions, self.called_by_function)


_FUNCTION_TYPES = {"func", "list(func)"}
_attributes_by_op: dict[str, tuple[str, ...]] = {}


def _function_attributes(node: NodeDef) -> list[str]:
    """Return the attributes of a node that name functions; a look at each of them takes 10 times as long."""
    if node.op not in _attributes_by_op:
        known = op_def_registry.get(node.op)
        if known is None:
            return [key for key, value in node.attr.items() if value.HasField("func") or value.list.func]
        _attributes_by_op[node.op] = tuple(each.name for each in known.attr if each.type in _FUNCTION_TYPES)
    return [key for key in _attributes_by_op[node.op] if key in node.attr]


def input_nodes(node: NodeDef) -> list[str]:
    """Return the names of the nodes that a node reads or waits for."""
    return [node_of(name) for name in node.input]


def tensor_name(name: str) -> str:
    """Return the full name of a tensor of a graph, whose first output may be written without ``:0``."""
    return name if ":" in name else f"{name}:0"


def node_of(tensor: str) -> str:
    """Return the node of a tensor or input: ``a`` for ``a``, ``a:1``, ``^a`` and, in a function, ``a:output:0``."""
    return tensor.removeprefix("^").partition(":")[0]


def dependencies(nodes: Mapping[str, NodeDef], roots: Iterable[str]) -> set[str]:
    """Return the names that the given nodes depend on within one scope, by data or by control, and themselves."""
    return _closure(roots, lambda name: input_nodes(nodes[name]) if name in nodes else ())


def dependencies_first(nodes: Mapping[str, NodeDef]) -> list[NodeDef]:
    """Return the nodes of one scope, each after those that it depends on; an edge that closes a loop is passed over."""
    names = _post_order(nodes, lambda name: input_nodes(nodes[name]) if name in nodes else ())
    return [nodes[name] for name in names if name in nodes]


def _without_inputs(node: NodeDef, tensors: set[str]) -> NodeDef:
    if tensors.isdisjoint(map(tensor_name, node.input)):
        return node
    other = NodeDef()
    other.CopyFrom(node)
    other.input[:] = [_FED if tensor_name(name) in tensors else name for name in node.input]
    return other


def _closure(roots: Iterable[str], successors: Callable[[str], Iterable[str]]) -> set[str]:
    seen: set[str] = set()
    stack = list(roots)
    while stack:
        name = stack.pop()
        if name not in seen:
            seen.add(name)
            stack.extend(successors(name))
    return seen


def _post_order(roots: Iterable[str], successors: Callable[[str], Iterable[str]]) -> list[str]:
    """Depth first search; a name is entered once, so that a loop ends where it meets its own path."""
    order: list[str] = []
    entered: set[str] = set()
    stack: list[tuple[str | None, Iterator[str]]] = [(None, iter(roots))]
    while stack:
        name, rest = stack[-1]
        following = next((child for child in rest if child not in entered), None)
        if following is not None:
            entered.add(following)
            stack.append((following, iter(successors(following))))
            continue
        stack.pop()
        if name is not None:
            order.append(name)
    return order
