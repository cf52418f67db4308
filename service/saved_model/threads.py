"""How many threads a process should use: the CPU limit of its cgroup, not the number of cores of the machine.

In a container with a limit of 4 CPUs on a node with 40 cores, 40 threads share the time of 4 and the kernel stops all
of them for most of each period.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path


def v2_limit(cpu_max: str) -> float | None:
    """Return the CPUs that a cgroup v2 ``cpu.max`` grants (``"150000 100000"`` is 1.5), None for no limit."""
    quota, _, period = cpu_max.strip().partition(" ")
    return _ratio(quota, period or "100000")


def v1_limit(quota_us: str, period_us: str) -> float | None:
    """Return the CPUs that ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` of a cgroup v1 grant, None for no limit."""
    return _ratio(quota_us.strip(), period_us.strip())


def default_threads(
    root: Path = Path("/sys/fs/cgroup"), membership: Path = Path("/proc/self/cgroup"), cores: int | None = None
) -> int:
    """Return the threads that suit this process: the tightest CPU limit rounded up, at most the usable cores.

    Args:
        root: where the cgroup file systems are mounted.
        membership: the file that names this process's cgroups.
        cores: usable cores; by default those that the affinity mask allows.
    """
    available = len(os.sched_getaffinity(0)) if cores is None else cores
    limits = [limit for limit in _limits(root, _read(membership) or "") if limit is not None]
    return max(1, min([available, *(math.ceil(limit) for limit in limits)]))


def _limits(root: Path, membership: str) -> Iterator[float | None]:
    """Yield the limit of each cgroup this process is in; every ancestor's limit holds as well."""
    for line in membership.splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            for directory in _with_ancestors(root, group):
                yield _v2_limit_of(directory)
        elif "cpu" in controllers.split(","):
            for directory in _with_ancestors(root / controllers, group):
                yield _v1_limit_of(directory)


def _with_ancestors(mount: Path, group: str) -> Iterator[Path]:
    """Yield the cgroup's directory and those above it; inside a container only the topmost may exist."""
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])


def _v2_limit_of(directory: Path) -> float | None:
    text = _read(directory / "cpu.max")
    return v2_limit(text) if text else None


def _v1_limit_of(directory: Path) -> float | None:
    quota, period = _read(directory / "cpu.cfs_quota_us"), _read(directory / "cpu.cfs_period_us")
    return v1_limit(quota, period) if quota and period else None


def _ratio(quota: str, period: str) -> float | None:
    if quota in ("max", "-1"):
        return None
    return int(quota) / int(period)


def _read(path: Path) -> str | None:
    """Return the file's text, None where this machine has no such file."""
    try:
        return path.read_text()
    except OSError:
        return None
