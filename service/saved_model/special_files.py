"""The files that a load of a SavedModel would open, none of which may be a pipe or the like."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from service.plain_files import refuse_other_than_file

_GRAPH_FILES: Final = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb", "fingerprint.pb")
_CHECKPOINT_FILES: Final = ("variables/variables.index", "variables/variables.data-*")


def refuse_special_files(path: Path) -> None:
    """Check that what a load of a SavedModel would open are files. Links are followed, and nothing is opened.

    Files that are not there, or cannot be seen, are left to whoever reads them.

    Raises:
        LoadError: one is a directory, a named pipe, a socket or a device.
    """
    for file in _files_to_open(path):
        refuse_other_than_file(file)


def _files_to_open(path: Path) -> Iterator[Path]:
    yield from (path / name for name in _GRAPH_FILES)
    for pattern in _CHECKPOINT_FILES:
        yield from sorted(path.glob(pattern))
    for directory, _, names in os.walk(path / "assets"):
        yield from (Path(directory, name) for name in sorted(names))
