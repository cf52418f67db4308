"""Which state a signature needs to find ready: the variables that it reads before it writes them, and its tables.

A variable that a signature assigns before it reads it may be uninitialized. So for each variable the reads are looked
for that no assignment comes before, along data and control edges; a function is summed up once, argument by argument.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.saved_model.graph_index import GraphIndex, dependencies, dependencies_first, input_nodes, node_of

_HANDLES = {"VarHandleOp", "Variable", "VariableV2"}
_TABLES = {"HashTable", "HashTableV2"}
"""Those that are filled once. The others begin empty, and are ready so."""
_PASS_ON = {"Enter", "Exit", "Identity", "Merge", "RefEnter", "RefExit", "RefIdentity", "RefMerge"}
_PASS_ON_SOMETIMES = {"RefSwitch", "Switch"}
_ASSIGN = {"Assign", "AssignVariableOp"}
_NEITHER = {"DestroyResourceOp", "IsVariableInitialized", "VarIsInitializedOp"}

_FIRST_ARGUMENT = {"Case": 1, "If": 1, "StatelessCase": 1, "StatelessIf": 1}
"""The input that becomes a function's first argument, where it is not input 0: branches get all but the condition."""
_MAY_RUN_NO_BODY = {"StatelessWhile", "While"}
_CALLS = {"PartitionedCall", "StatefulPartitionedCall", *_FIRST_ARGUMENT, *_MAY_RUN_NO_BODY}


@dataclass(frozen=True)
class _Use:
    """What a node or a whole function does with one variable.

    Attributes:
        reads: it reads the variable, and has not assigned it before.
        assigns: it assigns the variable on every path.
    """

    reads: bool = False
    assigns: bool = False


_READS = _Use(reads=True)
_ASSIGNS = _Use(assigns=True)


class StateUse:
    """The state that runs of a graph's nodes need; each function is analysed once for all signatures."""

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._by_function: dict[str, dict[str, _Use]] = {}

    def variables_read(self, roots: Iterable[str]) -> list[str]:
        """Return the variables' nodes whose value the first run of these nodes reads, sorted by name."""
        names = self._index.reach(roots)
        nodes = {name: self._index.nodes[name] for name in names if name in self._index.nodes}
        self._sum_up_functions(self._index.reach_functions(nodes))
        handles = [name for name, node in nodes.items() if node.op in _HANDLES]
        return sorted(name for name, use in self._uses(nodes, handles).items() if use.reads)

    def tables(self, roots: Iterable[str]) -> list[str]:
        """Return the nodes of the lookup tables that a run of these nodes needs to be filled, sorted by name."""
        nodes = (self._index.nodes.get(name) for name in self._index.reach(roots))
        return sorted(node.name for node in nodes if node is not None and node.op in _TABLES)

    def _sum_up_functions(self, functions: Iterable[str]) -> None:
        for name in self._index.callees_first(functions):
            if name not in self._by_function:
                function = self._index.functions[name]
                arguments = [argument.name for argument in function.signature.input_arg]
                nodes = {node.name: node for node in function.node_def}
                self._by_function[name] = self._uses(nodes, arguments)

    def _uses(self, nodes: Mapping[str, NodeDef], variables: Iterable[str]) -> dict[str, _Use]:
        """Return what the nodes of one scope together do with each variable that is a node or an argument there."""
        scope = _Scope(nodes, variables)
        for node in dependencies_first(nodes):
            for position, source in enumerate(node.input):
                if not source.startswith("^") and not scope.passes_on(node, source):
                    scope.note(node, source, self._use_by(node, position))
        return scope.uses()

    def _use_by(self, node: NodeDef, position: int) -> _Use:
        """Return what one node does with the variable at one of its inputs."""
        if node.op in _ASSIGN and position == 0:
            return _ASSIGNS
        if node.op in _NEITHER:
            return _Use()
        called = self._index.called(node)
        if called and (node.op in _CALLS or node.op in self._index.functions):
            return self._use_by_call(node, called, position - _FIRST_ARGUMENT.get(node.op, 0))
        return _READS

    def _use_by_call(self, node: NodeDef, called: list[str], argument: int) -> _Use:
        uses = [list(self._by_function[name].values())[argument] for name in called]
        return _Use(
            reads=any(use.reads for use in uses),
            assigns=all(use.assigns for use in uses) and node.op not in _MAY_RUN_NO_BODY,
        )


class _Scope:
    """The nodes of a graph or of one function body, and what they were seen to do with its variables."""

    def __init__(self, nodes: Mapping[str, NodeDef], variables: Iterable[str]) -> None:
        self._nodes = nodes
        self._variable_behind = {name: (name, True) for name in variables}
        self._reading: dict[str, list[str]] = {name: [] for name in self._variable_behind}
        self._assigning: dict[str, list[str]] = {name: [] for name in self._variable_behind}

    def passes_on(self, node: NodeDef, source: str) -> bool:
        """Whether the node only hands a variable on; what reads the node then reads the variable."""
        if node.op not in _PASS_ON | _PASS_ON_SOMETIMES:
            return False
        if node_of(source) in self._variable_behind:
            variable, always = self._variable_behind[node_of(source)]
            self._variable_behind[node.name] = (variable, always and node.op in _PASS_ON)
        return True

    def note(self, node: NodeDef, source: str, use: _Use) -> None:
        """Remember what the node does with the variable behind one of its inputs, if there is one."""
        if node_of(source) not in self._variable_behind:
            return
        variable, always = self._variable_behind[node_of(source)]
        if use.reads:
            self._reading[variable].append(node.name)
        if use.assigns and always:
            self._assigning[variable].append(node.name)

    def uses(self) -> dict[str, _Use]:
        """Return what was seen, variable by variable, in the order in which they were given."""
        return {variable: self._use_of(variable) for variable in self._reading}

    def _use_of(self, variable: str) -> _Use:
        assigning = set(self._assigning[variable])
        reads = any(not self._comes_after(name, assigning) for name in self._reading[variable])
        return _Use(reads, bool(assigning))

    def _comes_after(self, name: str, assigning: set[str]) -> bool:
        before = dependencies(self._nodes, input_nodes(self._nodes[name])) if assigning else set()
        return not assigning.isdisjoint(before)
