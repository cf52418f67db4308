"""Refuses pipes and other things in the place of a model's files, before anything opens them.

Whoever opens a named pipe waits for a writer, perhaps for ever, and a load cannot be stopped.
"""

import stat
from pathlib import Path
from typing import Final

from service.errors import LoadError

_KINDS: Final = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def refuse_other_than_file(path: Path, told: str = "") -> None:
    """Check that what is at a path is a file. Links are followed, and nothing is opened.

    What is not there, or cannot be seen, is left to whoever reads it.

    Args:
        path: of what is about to be read.
        told: what an error says before the path.

    Raises:
        LoadError: it is a directory, a named pipe, a socket or a device.
    """
    try:
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
    except (OSError, ValueError):
        return
    if kind is not None:
        raise LoadError(f"{told}{path}: is a {kind}, not a file")
