"""What TensorFlow may do to a model's graph to make it faster, beyond what it does anyway."""

from dataclasses import dataclass
from enum import Enum


class Xla(Enum):
    """What XLA compiles. Functions that were exported with ``jit_compile`` are compiled in any case."""

    OFF = "off"
    """Nothing else."""
    AUTO = "auto"
    """The parts of the graph that TensorFlow chooses; the others run as they are."""
    ON = "on"
    """Each signature as a whole, once for each combination of input shapes."""


@dataclass(frozen=True)
class Optimizations:
    """What is asked for, for one model.

    Attributes:
        xla: of the signatures for which nothing else is said.
        xla_by_signature: of the others, ascending by name.
        mixed_precision: whether matrix products and the like may be computed with 16 bits.
    """

    xla: Xla = Xla.OFF
    xla_by_signature: tuple[tuple[str, Xla], ...] = ()
    mixed_precision: bool = False

    def xla_of(self, signature: str) -> Xla:
        """Return what XLA compiles of a signature."""
        return dict(self.xla_by_signature).get(signature, self.xla)
