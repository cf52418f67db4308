"""Whether a signature may run in the calling thread, or should use TensorFlow's pool of threads.

Running inline spares a change of threads for every op: 9 to 40 microseconds a call instead of 40 to 60. It is for
graphs on the CPU alone (``placement.keeps_to_one_thread``). Three things speak against it there:

- Depth. Inline, the op after a finished function call runs on the stack of that call. A chain of 3,000 calls that
  TensorFlow does not inline overflows the stack and ends the process; 1,200 pass.
- Ops that wait for other threads: datasets, queues, batching within the graph.
- Independent heavy branches, such as two towers, which the pool runs side by side. The rule: at least as many heavy ops
  (convolutions, matrix products) lie beside the longest path as on it, and at least 16.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.saved_model.graph_index import GraphIndex, dependencies_first, input_nodes

DEEPEST_INLINE = 200
"""Chains of this many calls use the pool; far below the 1,200 that were seen to pass."""
HEAVY_OPS_BESIDE = 16
"""A graph with fewer heavy ops beside its longest path gains nothing from the pool."""

_CONTROL = {"Case", "If", "StatelessCase", "StatelessIf", "StatelessWhile", "While"}
_HEAVY = {
    "BatchMatMul",
    "BatchMatMulV2",
    "BatchMatMulV3",
    "Conv2D",
    "Conv3D",
    "CudnnRNNV3",
    "DepthwiseConv2dNative",
    "Einsum",
    "MatMul",
    "SparseTensorDenseMatMul",
}
_WAITING = ("BatchFunction", "Dataset", "EagerPyFunc", "Iterator", "PyFunc", "Queue", "Unstage")
"""Parts of the names of ops that wait for other threads."""


@dataclass(frozen=True)
class _Shape:
    """Measures of a graph or of one function.

    Attributes:
        depth: calls and control-flow ops on the longest chain, those inside called functions included.
        heavy_path: heavy ops on the path that has most of them.
        heavy_total: all heavy ops.
    """

    depth: int = 0
    heavy_path: int = 0
    heavy_total: int = 0


class CallDepth:
    """Measures the parts of a graph that signatures run; each function is measured once for all of them."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._by_function: dict[str, _Shape] = {}

    def why_pool(self, roots: Iterable[str]) -> str | None:
        """Return why a run of these nodes should use the pool of threads, None when it may run inline."""
        waiting = sorted({node.op for node in self._index.reached_nodes(roots) if _waits(node.op)})
        if waiting:
            return f"{waiting[0]} waits for other threads"
        return _why_pool(self._shape(roots))

    def is_deep(self, roots: Iterable[str]) -> bool:
        """Whether what walks these nodes by recursion, as XLA does, could overflow the stack."""
        return self._shape(roots).depth >= DEEPEST_INLINE

    def _shape(self, roots: Iterable[str]) -> _Shape:
        names = self._index.reach(roots)
        nodes = {name: self._index.nodes[name] for name in names if name in self._index.nodes}
        for function in self._index.callees_first(self._index.reach_functions(nodes)):
            if function not in self._by_function:
                body = self._index.functions[function].node_def
                self._by_function[function] = self._measure({node.name: node for node in body})
        return self._measure(nodes)

    def _measure(self, nodes: Mapping[str, NodeDef]) -> _Shape:
        """Follow the longest paths through one scope."""
        depth: dict[str, int] = {}
        heavy: dict[str, int] = {}
        heavy_total = 0
        for node in dependencies_first(nodes):
            own = self._measure_node(node)
            sources = input_nodes(node)
            depth[node.name] = own.depth + max((depth.get(source, 0) for source in sources), default=0)
            heavy[node.name] = own.heavy_path + max((heavy.get(source, 0) for source in sources), default=0)
            heavy_total += own.heavy_total
        return _Shape(max(depth.values(), default=0), max(heavy.values(), default=0), heavy_total)

    def _measure_node(self, node: NodeDef) -> _Shape:
        heavy = int(node.op in _HEAVY)
        called = [self._by_function[name] for name in self._index.called(node)]
        if not called:
            return _Shape(0, heavy, heavy)
        return _Shape(
            1 + max(shape.depth for shape in called),
            max(shape.heavy_path for shape in called),
            max(shape.heavy_total for shape in called),
        )


def _waits(op: str) -> bool:
    return any(part in op for part in _WAITING)


def _why_pool(shape: _Shape) -> str | None:
    if shape.depth >= DEEPEST_INLINE:
        return f"{shape.depth} calls in a chain"
    beside = shape.heavy_total - shape.heavy_path
    if beside >= max(shape.heavy_path, HEAVY_OPS_BESIDE):
        return f"{beside} heavy ops beside a path of {shape.heavy_path}"
    return None
