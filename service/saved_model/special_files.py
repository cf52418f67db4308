"""Refuses pipes and other things in the place of a SavedModel's files, before anything opens them.

Whoever opens a named pipe waits for a writer, perhaps for ever, and a load cannot be stopped.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from service.errors import LoadError

_GRAPH_FILES: Final = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb", "fingerprint.pb")
_CHECKPOINT_FILES: Final = ("variables/variables.index", "variables/variables.data-*")
_KINDS: Final = {
    stat.S_IFDIR: "directory",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def refuse_special_files(path: Path) -> None:
    """Check that what a load of a SavedModel would open are files. Links are followed, and nothing is opened.

    Files that are not there, or cannot be seen, are left to whoever reads them.

    Raises:
        LoadError: one is a directory, a named pipe, a socket or a device.
    """
    for file in _files_to_open(path):
        try:
            kind = _KINDS.get(stat.S_IFMT(file.stat().st_mode))
        except OSError:
            continue
        if kind is not None:
            raise LoadError(f"{file}: is a {kind}, not a file")


def _files_to_open(path: Path) -> Iterator[Path]:
    yield from (path / name for name in _GRAPH_FILES)
    for pattern in _CHECKPOINT_FILES:
        yield from sorted(path.glob(pattern))
    for directory, _, names in os.walk(path / "assets"):
        yield from (Path(directory, name) for name in sorted(names))
