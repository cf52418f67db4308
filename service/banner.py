"""What was chosen and what is served, in one place of the log."""

import logging
from collections.abc import Iterable, Sequence

import service
from service.memory_limit import memory
from service.model_version import ModelVersion, ServedSignature

_MIB = 1 << 20

logger = logging.getLogger(__name__)


def log_banner(transport: str, addresses: Sequence[str], runtime: str, versions: Iterable[ModelVersion]) -> None:
    """Log what an operator asks first: where, with what, which models with which signatures.

    Args:
        transport: its name.
        addresses: where it takes calls.
        runtime: what TensorFlow was told.
        versions: every ready one.
    """
    room = memory()
    left = f"; {room.left // _MIB} MiB left of the {room.limit // _MIB} MiB of {room.owner}" if room else ""
    logger.info("serving: signet %s, gRPC by %s at %s", service.__version__, transport, ", ".join(addresses))
    logger.info("serving: %s%s", runtime, left)
    for loaded in versions:
        signatures = ", ".join(_describe(loaded, name, served) for name, served in loaded.signatures.items())
        logger.info("serving: model '%s' version %d: %s", loaded.name, loaded.version, signatures)


def _describe(loaded: ModelVersion, name: str, served: ServedSignature) -> str:
    rows = f"up to {served.max_batch_size} rows" if served.max_batch_size else "not batched"
    default = "default, " if name == loaded.config.default_signature else ""
    return f"{name} ({default}{rows})"
