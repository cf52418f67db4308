"""How a SavedModel is brought into memory; two loads with equal options may share what is loaded."""

from dataclasses import dataclass, field

from service.devices import CPU, Device
from service.optimizations import Optimizations

SERVE = frozenset({"serve"})
"""The tags of a graph that is meant for serving."""


@dataclass(frozen=True)
class GraphOptions:
    """The options of one load.

    Attributes:
        tags: of the graph to load.
        devices: each gets a copy of the weights; None among them leaves the choice to the graph and TensorFlow.
        optimizations: what TensorFlow may do to the graph.
    """

    tags: frozenset[str] = field(default=SERVE)
    devices: tuple[Device | None, ...] = (CPU,)
    optimizations: Optimizations = field(default_factory=Optimizations)
