"""Which signatures must run on one and the same copy of a model, since one of them changes what another reads."""

from collections.abc import Iterable, Mapping

from service.saved_model.graph_index import GraphIndex
from service.saved_model.op_registry import op_def
from service.saved_model.signature_defs import BoundSignature
from service.signature import Effect

_Holder = tuple[str, str]


def pinned_signatures(index: GraphIndex, signatures: Mapping[str, BoundSignature]) -> frozenset[str]:
    """Return the signatures that write, and those that use any of the state that these use."""
    writing = [name for name, bound in signatures.items() if bound.signature.effect is Effect.WRITING]
    if not writing:
        return frozenset()
    used = {name: _holders(index, bound.output_roots) for name, bound in signatures.items()}
    written = frozenset[_Holder]().union(*(used[name] for name in writing))
    return frozenset(name for name in signatures if name in writing or used[name] & written)


def _holders(index: GraphIndex, roots: Iterable[str]) -> frozenset[_Holder]:
    """Return what keeps state from one run to the next, by container and name, as TensorFlow knows it."""
    holders = set()
    for _, node in index.reached(roots):
        known = op_def(node.op)
        if known is not None and known.is_stateful and not known.input_arg:
            attributes = node.attr
            container = bytes(attributes["container"].s).decode() if "container" in attributes else ""
            shared = bytes(attributes["shared_name"].s).decode() if "shared_name" in attributes else ""
            holders.add((container, shared or node.name))
    return frozenset(holders)
