"""How many threads a process should use: the CPU limit of its cgroup, not the number of cores of the machine.

In a container with a limit of 4 CPUs on a node with 40 cores, 40 threads share the time of 4 and the kernel stops all
of them for most of each period.
"""

import math
import os
from collections.abc import Iterator

from service.cgroups import Cgroups, read


def v2_limit(cpu_max: str) -> float | None:
    """Return the CPUs that a cgroup v2 ``cpu.max`` grants (``"150000 100000"`` is 1.5), None for no limit."""
    quota, _, period = cpu_max.strip().partition(" ")
    return _ratio(quota, period or "100000")


def v1_limit(quota_us: str, period_us: str) -> float | None:
    """Return the CPUs that ``cpu.cfs_quota_us`` and ``cpu.cfs_period_us`` of a cgroup v1 grant, None for no limit."""
    return _ratio(quota_us.strip(), period_us.strip())


def default_threads(cgroups: Cgroups | None = None, cores: int | None = None) -> int:
    """Return the threads that suit this process: the tightest CPU limit rounded up, at most the usable cores.

    Args:
        cgroups: of the process; by default this one's.
        cores: usable cores; by default those that the affinity mask allows.
    """
    available = len(os.sched_getaffinity(0)) if cores is None else cores
    limits = [limit for limit in _limits(cgroups or Cgroups()) if limit is not None]
    return max(1, min([available, *(math.ceil(limit) for limit in limits)]))


def _limits(cgroups: Cgroups) -> Iterator[float | None]:
    for directory in cgroups.v2():
        if text := read(directory / "cpu.max"):
            yield v2_limit(text)
    for directory in cgroups.v1("cpu"):
        quota, period = read(directory / "cpu.cfs_quota_us"), read(directory / "cpu.cfs_period_us")
        if quota and period:
            yield v1_limit(quota, period)


def _ratio(quota: str, period: str) -> float | None:
    if quota in ("max", "-1"):
        return None
    return int(quota) / int(period)
