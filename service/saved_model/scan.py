"""Looks through what a blueprint would run, before any of it runs, for operations that reach beyond the graph.

What every SavedModel does is not told: restoring its variables from its checkpoint, and reading its own assets.
"""

from collections.abc import Iterable, Iterator

from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.model_scan import Finding
from service.saved_model.blueprint import Blueprint
from service.saved_model.file_names import FileNames
from service.saved_model.graph_index import GraphIndex, node_of
from service.saved_model.reaching_ops import FILE_NAME_INPUTS, RESTORE_OPS, reach_of


def scan(blueprint: Blueprint) -> list[Finding]:
    """Return what the signatures and the setup steps do beyond computing."""
    index = GraphIndex(blueprint.graph)
    fed = {node_of(tensor) for step in blueprint.setup for tensor in step.feeds}
    names = FileNames(index, fed=fed, own_files=blueprint.assets)
    places = [(f"signature '{name}'", bound.output_roots, False) for name, bound in blueprint.signatures.items()]
    places += [(step.purpose, step.nodes, step.restores) for step in blueprint.setup]
    return [
        Finding(place, does, node.op, node.name if scope is None else f"{scope}/{node.name}")
        for place, roots, restores in places
        for scope, node, does in _reaching(index, names, roots)
        if not (restores and node.op in RESTORE_OPS)
    ]


def _reaching(index: GraphIndex, names: FileNames, roots: Iterable[str]) -> Iterator[tuple[str | None, NodeDef, str]]:
    for scope, node in index.reached(roots):
        does = reach_of(node)
        if does is not None and not _reads_own_files(names, scope, node):
            yield scope, node, does


def _reads_own_files(names: FileNames, scope: str | None, node: NodeDef) -> bool:
    position = FILE_NAME_INPUTS.get(node.op)
    return position is not None and position < len(node.input) and names.are_own(scope, node.input[position])
