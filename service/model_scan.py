"""What a model could do besides computing, and what becomes of one that could."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

_SHOWN: Final = 20
"""A message has no use for more: a model with so many has been seen through."""

logger = logging.getLogger(__name__)


class ModelRefusedError(Exception):
    """A version is not to be loaded because of what it would do. It becomes a LoadError where the load ends."""


class ModelScan(Enum):
    """What happens with a model whose graph touches files, runs Python or talks to other hosts."""

    WARN = "warn"
    REFUSE = "refuse"
    OFF = "off"


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """An operation that reaches beyond the model.

    Attributes:
        place: what runs it: ``signature 'NAME'``, or a step of the load.
        does: what it does, such as ``reads files``.
        op: its type.
        node: its name in the graph; within a function ``FUNCTION/NODE``.
    """

    place: str
    does: str
    op: str
    node: str

    def __str__(self) -> str:
        return f"{self.place} {self.does}: {self.op} (node '{self.node}')"


class ModelJudge:
    """Decides on one version. Each finding is told once, however often the version is looked at."""

    def __init__(self, scan: ModelScan, *, model: str, version: int) -> None:
        self._scan = scan
        self._place = f"model '{model}' version {version}"
        self._told: set[Finding] = set()

    @property
    def looks(self) -> bool:
        """Whether a version is to be looked at."""
        return self._scan is not ModelScan.OFF

    def judge(self, findings: Iterable[Finding]) -> None:
        """Warn of what was found, or refuse the version.

        Raises:
            ModelRefusedError: something was found, and such models are refused.
        """
        new = sorted(set(findings) - self._told)
        if not new:
            return
        self._told.update(new)
        listed = "; ".join(map(str, new[:_SHOWN]))
        if len(new) > _SHOWN:
            listed += f"; and {len(new) - _SHOWN} more"
        if self._scan is ModelScan.REFUSE:
            raise ModelRefusedError(f"{self._place} is refused by --scan-models refuse: {listed}")
        logger.warning("%s reaches beyond its graph: %s", self._place, listed)
