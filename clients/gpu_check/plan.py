"""What is served for the checks, and how large it is, as the programs that do not import TensorFlow need to know it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROWS: Final = 8
"""Rows of the answers that the server's are compared with."""
CLASSES: Final = 64
WORDS: Final = (b"zero", b"one", b"two")
BLOCK_PARTS: Final = 4
"""Signatures of the model ``block``, which share one variable."""
BLOCK_VALUE: Final = 2
"""What its state is full of."""
XLA_SIZES: Final = (1, 4, 8)
BUSY_ROWS: Final = 256
"""Rows of the requests that keep a GPU busy."""

_XLA_ALONE: Final = """
signatures { key: "scores" value { xla: "on" max_batch_size: 8 allowed_batch_sizes: [ 1, 4, 8 ] } }
"""
_XLA_PARTS: Final = """
parameters { key: "xla" value { string_value: "auto" } }
signatures { key: "scores" value { max_batch_size: 8 allowed_batch_sizes: [ 1, 4, 8 ] } }
"""
_MIXED: Final = 'parameters { key: "mixed_precision" value { string_value: "on" } }'
_BUSY: Final = "instance_group { count: %d } max_batch_size: 256"


@dataclass(frozen=True)
class Served:
    """A model of the server: the export behind it and its config.pbtxt."""

    export: str
    config: str = ""


MODELS: Final[Mapping[str, Served]] = {
    "network": Served("network"),
    "xla": Served("network", _XLA_ALONE),
    "xla_auto": Served("network", _XLA_PARTS),
    "mixed": Served("network", _MIXED),
    "one_worker": Served("network", _BUSY % 1),
    "two_workers": Served("network", _BUSY % 2),
    "meeting": Served("meeting"),
    "block": Served("block"),
    "too_large": Served("too_large"),
}


@dataclass(frozen=True)
class Sizes:
    """How large the models are, for a kind of device.

    Attributes:
        width: columns of what goes into the network; its weights are a square of this.
        limit_mib: ``--gpu-memory``.
        block_mib: the state of the model ``block``, of which one copy stays below the limit and two do not.
        too_large_mib: that of ``too_large``, which does not fit at all.
    """

    width: int
    limit_mib: int
    block_mib: int
    too_large_mib: int


GPU_SIZES: Final = Sizes(width=4096, limit_mib=4096, block_mib=2400, too_large_mib=8192)
CPU_SIZES: Final = Sizes(width=64, limit_mib=0, block_mib=64, too_large_mib=2**30)
"""On the CPU nothing limits but the memory itself, so that what does not fit is more than any address space holds."""


def write_repository(root: Path, exports: Path) -> None:
    """Lay the models out as a Triton repository of links to their exports."""
    for name, served in MODELS.items():
        version = root / name / "1"
        version.mkdir(parents=True)
        (version / "model.savedmodel").symlink_to(exports / served.export)
        (root / name / "config.pbtxt").write_text(served.config)
