"""Cuts a blueprint down before it is imported: large constants leave the graph, what nobody needs is dropped."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.op_def_pb2 import OpList

from service.saved_model.blueprint import Blueprint, SetupStep
from service.saved_model.constants import SharedConstant, Sharing, share_constants
from service.saved_model.pruning import prune
from service.saved_model.signature_defs import BoundSignature


@dataclass(frozen=True)
class RefinedBlueprint:
    """A graph that holds only what its signatures need.

    Attributes:
        way: how the SavedModel was read, for the log.
        graph: the nodes and functions to import.
        signatures: the signatures by name, with the tensors of ``graph``.
        constants: values of the variables that took the place of large constants; whoever assigns one drops it.
        setup: run in this order, restores and initializes all other state.
        producer_ops: the ops as the exporting release knew them.
        summary: what was dropped and shared, for the log.
    """

    way: str
    graph: GraphDef
    signatures: Mapping[str, BoundSignature]
    constants: list[SharedConstant]
    setup: tuple[SetupStep, ...]
    producer_ops: OpList | None
    summary: str


def refine(blueprint: Blueprint, compiled: Collection[str] = ()) -> RefinedBlueprint:
    """Return what is needed of a blueprint, whose graph is used up.

    Large constants are in memory twice at this moment. The caller must let the blueprint go before they are assigned,
    which copies them once more.

    Args:
        blueprint: as read.
        compiled: the signatures that XLA will compile as a whole.
    """
    sharing = share_constants(blueprint.graph, blueprint.signatures, compiled)
    pruned = prune(blueprint.graph, _roots(blueprint))
    return RefinedBlueprint(
        way=blueprint.way,
        graph=pruned,
        signatures=blueprint.signatures,
        constants=list(sharing.constants),
        setup=blueprint.setup,
        producer_ops=None if blueprint.producer_ops is None else OpList(op=blueprint.producer_ops.op),
        summary=_summary(blueprint.graph, pruned, sharing),
    )


def _roots(blueprint: Blueprint) -> list[str]:
    signatures = [root for bound in blueprint.signatures.values() for root in bound.roots]
    return signatures + [root for step in blueprint.setup for root in step.roots]


def _summary(whole: GraphDef, pruned: GraphDef, sharing: Sharing) -> str:
    nodes = f"{len(pruned.node)} of {len(whole.node)} nodes"
    functions = f"{len(pruned.library.function)} of {len(whole.library.function)} functions"
    parts = [f"{nodes} and {functions} kept"]
    if sharing.constants:
        shared = sum(constant.value.nbytes for constant in sharing.constants)
        parts.append(f"large constants shared as variables: {len(sharing.constants)} ({shared / 1e6:.1f} MB)")
    if sharing.copied_bytes:
        parts.append(f"large constants copied for each set of outputs: {sharing.copied_bytes / 1e6:.1f} MB")
    return "; ".join(parts)
