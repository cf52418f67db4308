"""Under which conditions figures were taken; without them they mean little."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

_PACKAGES: Final = ("signet-server", "tensorflow-cpu", "tensorflow", "grpcio")


@dataclass(frozen=True)
class Conditions:
    """Under which the figures were taken.

    Attributes:
        machine: the processor and how many cores there are.
        versions: of the programs, by name.
        rounds: how often everything was measured.
        seconds: how long each time.
        max_batch_size: most rows in a run.
        variants: the options of each variant of Signet, by its label.
        busy: processes that ran or waited for a core just before, on average over a minute.
    """

    machine: str
    versions: dict[str, str]
    rounds: int
    seconds: float
    max_batch_size: int
    variants: dict[str, str]
    busy: float


def describe_machine() -> str:
    """Return the name of the processor and how many cores this process may use."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def installed_versions() -> dict[str, str]:
    """Return the versions of what serves, by name of the package; TensorFlow has several packages."""
    versions = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
