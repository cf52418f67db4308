"""Where the kernel writes what this process may use: the files of its control groups, of version 1 and of version 2.

A process is bound by its own group and by all those above it. Inside a container with a name space of its own they look
like one group at the root; without one, the names that the process is told are the host's, and only the root exists.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cgroups:
    """The control groups of a process.

    Attributes:
        root: where their file systems are mounted.
        membership: the file that names the groups of the process.
    """

    root: Path = Path("/sys/fs/cgroup")
    membership: Path = Path("/proc/self/cgroup")

    def v2(self) -> Iterator[Path]:
        """Yield the directories of the groups of version 2 that bind the process, from its own to the topmost."""
        for controllers, group in self._lines():
            if controllers == "":
                # Where both versions are in use, version 2 is mounted beside the controllers of version 1.
                for mount in (self.root, self.root / "unified"):
                    yield from _with_ancestors(mount, group)

    def v1(self, controller: str) -> Iterator[Path]:
        """Yield the directories of the groups of version 1 that bind the process as to one controller, likewise."""
        for controllers, group in self._lines():
            if controller in controllers.split(","):
                # The kernel lists controllers that share a mount in its own order, the mount's name may have another.
                for mount in dict.fromkeys((self.root / controllers, self.root / controller)):
                    yield from _with_ancestors(mount, group)

    def _lines(self) -> Iterator[tuple[str, str]]:
        for line in (read(self.membership) or "").splitlines():
            _, controllers, group = line.split(":", 2)
            yield controllers, group


def read(path: Path) -> str | None:
    """Return the file's text without white space around it, None where this machine has no such file."""
    try:
        return path.read_text().strip()
    except OSError:
        return None


def _with_ancestors(mount: Path, group: str) -> Iterator[Path]:
    parts = [part for part in group.split("/") if part not in ("", "..")]
    for length in range(len(parts), -1, -1):
        yield mount.joinpath(*parts[:length])
