"""Models whose files come with the call that loads them: checked, written to a private place, removed after use."""

import shutil
import tempfile
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

from service.errors import InvalidArgumentError
from service.layouts import ModelSource, empty_model, find_model, is_version

LONGEST_NAME_BYTES: Final = 255
"""Of an entry of a directory, as which models come otherwise."""

_LONGEST_PATH_BYTES: Final = 1024


def check_paths(paths: Iterable[str]) -> None:
    """Check that files of these paths can make a model, and that none leads out of its directory.

    Args:
        paths: as callers write them, relative to the model's directory: ``VERSION/FILE``.

    Raises:
        InvalidArgumentError: one is no such path, or is the directory of another.
    """
    given = set(paths)
    for path in sorted(given):
        fault = _fault(path)
        if fault is None and any(str(parent) in given for parent in PurePosixPath(path).parents):
            fault = "it lies below another of the files"
        if fault is not None:
            raise InvalidArgumentError(f"file {_quote(path)} cannot be part of a model: {fault}")


def _fault(path: str) -> str | None:
    parts = path.split("/")
    if "\0" in path:
        return "its path has a NUL character"
    if len(path.encode()) > _LONGEST_PATH_BYTES or any(len(part.encode()) > LONGEST_NAME_BYTES for part in parts):
        return "its path is too long"
    if not {"", ".", ".."}.isdisjoint(parts):
        return "its path must be relative, without empty parts, '.' and '..'"
    if len(parts) == 1 or not is_version(parts[0]):
        return "it must lie in a version directory, as in '1/saved_model.pb'"
    return None


def _quote(path: str) -> str:
    return repr(path) if len(path) <= LONGEST_NAME_BYTES else f"{path[:LONGEST_NAME_BYTES]!r}..."


class Upload(AbstractContextManager["Upload"]):
    """The files of one load. They stay while anybody holds them, as a context; any thread may.

    Attributes:
        directory: the model's directory.
    """

    def __init__(self, directory: Path) -> None:
        self.directory: Final = directory
        self._holders = 0
        self._lock: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<Upload {self.directory}: {self._holders} holders>"

    def __enter__(self) -> Self:
        with self._lock:
            self._holders += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._holders -= 1
            is_last = self._holders == 0
        if is_last:
            shutil.rmtree(self.directory)

    def source(self, name: str) -> ModelSource:
        """Return the model that the files are."""
        return find_model(self.directory, name) or empty_model(self.directory, name)


class Uploads:
    """All uploads of a server, below one directory that only its user can enter. Any thread may use it."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._lock: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<Uploads in {self._root}>"

    def write(self, files: Mapping[str, bytes]) -> Upload:
        """Write the files of one load.

        Args:
            files: by path, which ``check_paths`` has checked.

        Returns:
            The files, held by nobody yet.

        Raises:
            OSError: they cannot be written, for lack of space, say; what was written is removed.
        """
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="signet-"))
        directory = Path(tempfile.mkdtemp(dir=self._root))
        try:
            for path, content in files.items():
                file = directory / path
                file.parent.mkdir(parents=True, exist_ok=True)
                # The directory is new and private, so the file is new, too, and no link.
                with file.open("xb") as stream:
                    stream.write(content)
        except BaseException:
            shutil.rmtree(directory)
            raise
        return Upload(directory)

    def close(self) -> None:
        """Remove everything, whoever holds it."""
        with self._lock:
            if self._root is not None:
                shutil.rmtree(self._root, ignore_errors=True)
                self._root = None
