"""What either way of reading a SavedModel hands over: a graph, its signatures and how its state is set up."""

from collections.abc import Mapping
from dataclasses import dataclass

from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.op_def_pb2 import OpList

from service.saved_model.graph_index import node_of
from service.saved_model.signature_defs import BoundSignature


@dataclass(frozen=True)
class SetupStep:
    """Nodes that one call of the Session runs before the first request.

    Attributes:
        purpose: what they do, for error texts.
        nodes: their names.
        feeds: values of tensors that they read, such as the checkpoint's place.
        restores: whether they read the checkpoint.
    """

    purpose: str
    nodes: tuple[str, ...]
    feeds: Mapping[str, str]
    restores: bool = False

    @property
    def roots(self) -> tuple[str, ...]:
        """The nodes that must be in the graph for this step."""
        return (*self.nodes, *(node_of(tensor) for tensor in self.feeds))


@dataclass(frozen=True)
class Blueprint:
    """A graph that is ready to be imported into a Session.

    Attributes:
        way: how the SavedModel was read, for the log.
        graph: the nodes and functions; may hold more than is needed.
        signatures: the signatures by name, with the tensors of ``graph``.
        setup: run in this order, restores and initializes all state.
        producer_ops: the ops as the exporting release knew them; lets attributes be dropped that a newer release added
            and that have their default value. None where the graph was made by this release.
        assets: the paths of the model's own asset files.
    """

    way: str
    graph: GraphDef
    signatures: Mapping[str, BoundSignature]
    setup: tuple[SetupStep, ...]
    producer_ops: OpList | None = None
    assets: frozenset[str] = frozenset()
