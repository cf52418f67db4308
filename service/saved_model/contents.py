"""Tells whether two directories hold the same SavedModel."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Final

from service.file_identity import Files, files_below

_GRAPHS: Final = frozenset({"saved_model.pb", "saved_model.pbtxt"})
_DIRECTORIES: Final = frozenset({"variables", "assets"})


class Contents:
    """The files of a SavedModel that a load reads, as they were at one moment.

    What else lies in the directory, such as a configuration or a fingerprint, does not count.

    Attributes:
        files: what tells them from others.
    """

    def __init__(self, directory: Path) -> None:
        """Look at a directory; nothing is read."""
        self._directory: Final = directory
        self.files: Final = _files_that_are_read(directory)

    def is_current(self) -> bool:
        """Whether the directory holds the same files still."""
        return _files_that_are_read(self._directory) == self.files

    def is_same_files(self, other: "Contents") -> bool:
        """Whether both are the very same files, by whichever path and links."""
        return self.files == other.files

    def is_equal(self, other: "Contents") -> bool:
        """Whether both hold the same bytes; files are read only if their names and sizes agree, and each once."""
        return self.sizes == other.sizes and self.digest is not None and self.digest == other.digest

    @property
    def sizes(self) -> frozenset[tuple[str, int]]:
        """The files' names and sizes in bytes."""
        return frozenset((name, size) for name, _, _, size, _ in self.files)

    @cached_property
    def digest(self) -> bytes | None:
        """A hash of all files; None if they are no longer those that were seen first, or cannot be read."""
        digest = hashlib.sha256()
        try:
            for name in sorted(name for name, *_ in self.files):
                with (self._directory / name).open("rb") as file:
                    digest.update(hashlib.file_digest(file, "sha256").digest())
        except OSError:
            return None
        return digest.digest() if self.is_current() else None


def _files_that_are_read(directory: Path) -> Files:
    return frozenset(each for each in files_below(directory) if _is_read(Path(each[0])))


def _is_read(path: Path) -> bool:
    return path.name in _GRAPHS if len(path.parts) == 1 else path.parts[0] in _DIRECTORIES
