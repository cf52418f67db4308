"""Small files that an operator changes while the server runs: certificates, keys, tokens."""

import logging
import stat
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Generic, TypeVar

from service.errors import LoadError

T = TypeVar("T")

_LOOK_S: Final = 1.0
"""How long what was read counts without another look at the files."""

_Stamp = tuple[tuple[int, int, int] | None, ...]

logger = logging.getLogger(__name__)


class ChangingFiles(Generic[T]):
    """What is read from some files, read again when they change; what they were last in good order counts.

    Any thread may ask. Files are looked at when someone asks, at most once a second.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        read: Callable[[Sequence[bytes]], T],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read the files.

        Args:
            paths: of the files.
            read: makes from their contents what they mean. It raises ValueError where they mean nothing; the text must
                not tell what is in the files.
            clock: gives the time in seconds.

        Raises:
            LoadError: a file cannot be read or means nothing.
        """
        self._paths: Final = tuple(paths)
        self._read: Final = read
        self._clock: Final = clock
        self._lock: Final = threading.Lock()
        self._stamp = self._look()
        self._looked_at = clock()
        try:
            self._value = self._read_now()
        except (OSError, ValueError) as error:
            raise LoadError(_describe(error, self._paths)) from error

    def current(self) -> T:
        """Return what the files mean, or meant when they were last in good order."""
        if self._clock() - self._looked_at >= _LOOK_S and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            finally:
                self._lock.release()
        return self._value

    def _refresh(self) -> None:
        self._looked_at = self._clock()
        stamp = self._look()
        if stamp == self._stamp:
            return
        # Also when it fails: the same broken files are told of once.
        self._stamp = stamp
        try:
            _check_are_files(self._paths)
            self._value = self._read_now()
        except (OSError, ValueError) as error:
            logger.warning("%s; what was read before stays in force", _describe(error, self._paths))
        else:
            logger.info("read anew: %s", ", ".join(map(str, self._paths)))

    def _read_now(self) -> T:
        return self._read([path.read_bytes() for path in self._paths])

    def _look(self) -> _Stamp:
        return tuple(map(_stamp, self._paths))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file, links followed; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _check_are_files(paths: Sequence[Path]) -> None:
    """Refuse a pipe, whose reader waits for a writer, perhaps for ever, and everybody who calls with it."""
    for path in paths:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ValueError(f"{path} is no file")


def _describe(error: OSError | ValueError, paths: Sequence[Path]) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: cannot be read: {error.strerror}"
    return f"{', '.join(map(str, paths))}: {error}"
