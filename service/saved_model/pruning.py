"""Dropping what no served signature needs, before the graph is imported.

Exports carry training steps, the nodes that save, and a function for every method that was ever traced. EfficientNet-B0
needs 7 of its 105 functions; the rest cost 40 MB.
"""

from collections.abc import Iterable

from tensorflow.core.framework.graph_pb2 import GraphDef

from service.saved_model.graph_index import GraphIndex

_COLOCATION = "_class"
_COLOCATED_WITH = b"loc:@"


def prune(graph: GraphDef, roots: Iterable[str]) -> GraphDef:
    """Return a new graph with the nodes and functions that the given nodes need, and nothing else."""
    index = GraphIndex(graph)
    nodes = index.reach(roots)
    functions = index.reach_functions(nodes)
    pruned = GraphDef(versions=graph.versions)
    for node in graph.node:
        if node.name in nodes:
            kept = pruned.node.add()
            kept.CopyFrom(node)
            if _COLOCATION in kept.attr:
                locations = kept.attr[_COLOCATION].list.s
                locations[:] = [location for location in locations if _is_there(location, nodes)]
    pruned.library.function.extend(index.functions[name] for name in sorted(functions))
    pruned.library.gradient.extend(
        gradient for gradient in graph.library.gradient if {gradient.function_name, gradient.gradient_func} <= functions
    )
    return pruned


def _is_there(location: bytes, nodes: set[str]) -> bool:
    return not location.startswith(_COLOCATED_WITH) or location.removeprefix(_COLOCATED_WITH).decode() in nodes
