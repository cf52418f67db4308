"""How much memory this process may still take, and a word of warning before a load that cannot fit.

The kernel ends a process that reaches the limit of its cgroup without a word, and Kubernetes tells of it only as
``OOMKilled``; so the log says beforehand what is about to happen. Nothing is refused: what is on disk is known, what a
load will take only in part.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from service.cgroups import Cgroups, read

logger = logging.getLogger(__name__)

_MIB: Final = 1 << 20
# Without a limit, version 1 says the largest number of whole pages that its counter holds.
_V1_UNLIMITED: Final = 1 << 62


@dataclass(frozen=True)
class Memory:
    """Memory that a process may take, and what of it is in use, in bytes.

    Attributes:
        limit: what may be used in all.
        used: what is in use and cannot be had back by dropping cached files.
        owner: whose limit it is, for the log.
    """

    limit: int
    used: int
    owner: str

    @property
    def left(self) -> int:
        """What may still be taken."""
        return max(0, self.limit - self.used)


def memory(cgroups: Cgroups | None = None, meminfo: Path = Path("/proc/meminfo")) -> Memory | None:
    """Return that of the cgroups and the machine of which least is left; None where nothing tells of any.

    Args:
        cgroups: of the process; by default this one's.
        meminfo: the file in which the machine tells of its memory.
    """
    found = [*_limits(cgroups or Cgroups()), *_machine(meminfo)]
    return min(found, key=lambda one: one.left, default=None)


def log_memory() -> None:
    """Tell what memory there is."""
    found = memory()
    if found is not None:
        logger.info("memory: %d MiB left of the %d MiB of %s", found.left // _MIB, found.limit // _MIB, found.owner)


def warn_if_too_large(path: Path, *, model: str, version: int, room: Memory | None = None) -> None:
    """Warn when what a SavedModel holds on disk is more than the memory that is left.

    Args:
        path: the SavedModel.
        model: the model's name, for the log.
        version: the version's number, likewise.
        room: the memory there is; by default this process's.
    """
    found = room or memory()
    needed = _size(path)
    if found is not None and needed > found.left:
        logger.warning(
            "model %r version %d: its variables and graph are %d MiB on disk, and %d MiB are left of the %d MiB of %s;"
            " the kernel may end this process while it loads",
            model, version, needed // _MIB, found.left // _MIB, found.limit // _MIB, found.owner,
        )  # fmt: skip


def _size(path: Path) -> int:
    """Return the bytes of a SavedModel's graph and variables; each variable takes its size again in memory."""
    total = 0
    for file in (*path.glob("saved_model.*"), *path.glob("variables/variables.data-*")):
        with contextlib.suppress(OSError):  # it is being replaced, or cannot be seen; the load itself says so
            total += file.stat().st_size
    return total


def _limits(cgroups: Cgroups) -> Iterator[Memory]:
    owner = "the container's memory limit"
    for directory in cgroups.v2():
        limit, used = read(directory / "memory.max"), read(directory / "memory.current")
        if limit and used and limit != "max":
            yield Memory(int(limit), _without_cache(directory, int(used), "inactive_file"), owner)
    for directory in cgroups.v1("memory"):
        limit, used = read(directory / "memory.limit_in_bytes"), read(directory / "memory.usage_in_bytes")
        if limit and used and int(limit) < _V1_UNLIMITED:
            yield Memory(int(limit), _without_cache(directory, int(used), "total_inactive_file"), owner)


def _without_cache(directory: Path, used: int, cache: str) -> int:
    """Return what is used without the files that the kernel drops first, as the kubelet counts a working set."""
    for line in (read(directory / "memory.stat") or "").splitlines():
        name, _, value = line.partition(" ")
        if name == cache:
            return max(0, used - int(value))
    return used


def _machine(meminfo: Path) -> Iterator[Memory]:
    sizes = dict(line.split(":", 1) for line in (read(meminfo) or "").splitlines() if ":" in line)
    if {"MemTotal", "MemAvailable"} <= sizes.keys():
        total, available = (int(sizes[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
        yield Memory(total, total - available, "this machine")
