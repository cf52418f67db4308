"""How the server writes its log: one line per event on standard error."""

import logging
import sys
import time
from types import TracebackType
from typing import Final

_FORMAT: Final = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s"

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class _OneLine(logging.Formatter):
    """Keeps an event's text on one line; a traceback follows it, indented. So nothing can look like another event."""

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = _printable(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - the name is logging's
        return "\n".join(f"    {_printable(line)}" for line in super().formatException(ei).split("\n"))


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def configure(verbose: int = 0, *, quiet: bool = False) -> None:
    """Log to standard error.

    Args:
        verbose: 0 logs what an operator needs, 1 and more details.
        quiet: log warnings and errors alone.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine(_FORMAT, "%Y-%m-%dT%H:%M:%S"))
    level = logging.WARNING if quiet else logging.DEBUG if verbose else logging.INFO
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for package in ("service", "batching"):
        logging.getLogger(package).setLevel(level)
