"""Tells whether files on disk are still the ones that were loaded, without reading them."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

Files = frozenset[tuple[str, int, int, int, int]]
"""Of each file: path within its directory, device, inode, size in bytes, time of change in nanoseconds."""


def files_below(directory: Path) -> Files:
    """Return what tells the files of a directory tree from others that may take their place.

    Links are followed, so that a link that now leads to another directory counts as a change. A file that cannot be
    seen is left out: whoever reads it will say why.
    """
    return frozenset(_identities(directory, _walk(directory)))


def files_beside(directory: Path) -> Files:
    """Return the same for the files of a directory itself, without those of its subdirectories."""
    try:
        return frozenset(_identities(directory, [entry for entry in directory.iterdir() if entry.is_file()]))
    except OSError:
        return frozenset()


def _walk(root: Path) -> Iterator[Path]:
    # Links may lead in a circle, so a directory is entered once, wherever it is met.
    entered = set()
    for path, directories, names in os.walk(root, followlinks=True):
        place = Path(path).resolve()
        if place in entered:
            directories.clear()
            continue
        entered.add(place)
        yield from (Path(path, name) for name in names)


def _identities(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, int, int, int, int]]:
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        yield str(file.relative_to(root)), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
