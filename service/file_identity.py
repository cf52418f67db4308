"""Tells whether files on disk are still the ones that were loaded, without reading them."""

import contextlib
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
    return frozenset(_identities(directory, [path / name for path, names in _walk(directory) for name in names]))


def files_beside(directory: Path) -> Files:
    """Return the same for the files of a directory itself, without those of its subdirectories."""
    try:
        return frozenset(_identities(directory, [entry for entry in directory.iterdir() if entry.is_file()]))
    except OSError:
        return frozenset()


def last_change_below(directory: Path) -> float:
    """Return when a file of a directory tree was last changed, or one came or went, in seconds of the system's clock.

    To move the whole tree is no change of it. What cannot be seen is left out; 0 when nothing can.
    """
    # A file's time of modification can be set, as copies do, the other not; a directory's other tells of a move.
    times = [
        time
        for path, names in _walk(directory)
        for time in (*_times([path], "st_mtime"), *_times((path / name for name in names), "st_ctime"))
    ]
    return max(times, default=0.0)


def last_change_beside(directory: Path) -> float:
    """Return the same for the files of a directory itself; that one came or went does not count."""
    try:
        files = [entry for entry in directory.iterdir() if entry.is_file()]
    except OSError:
        return 0.0
    return max(_times(files, "st_ctime"), default=0.0)


def _times(paths: Iterable[Path], which: str) -> Iterator[float]:
    for path in paths:
        with contextlib.suppress(OSError):
            yield getattr(path.stat(), which)


def _walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    # Links may lead in a circle, so a directory is entered once, wherever it is met.
    entered = set()
    for path, directories, names in os.walk(root, followlinks=True):
        place = Path(path).resolve()
        if place in entered:
            directories.clear()
            continue
        entered.add(place)
        yield Path(path), names


def _identities(root: Path, files: Iterable[Path]) -> Iterator[tuple[str, int, int, int, int]]:
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        yield str(file.relative_to(root)), status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
