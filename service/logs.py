"""How the server writes its log: one line per event on standard error."""

import json
import logging
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Final

_PACKAGES: Final = ("service", "batching")

_GRPC: Final = "grpc._cython.cygrpc"
_OF_ONE_CALL: Final = ("Invalid encoding", "raised in core by servicer method")

_MOST_CHARACTERS: Final = 16_384
"""Of one event's text. Names that callers choose are part of some; what they send must not fill a disk."""

_ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


class LogFormat(Enum):
    """How an event is written. The first two names are Triton's; times are UTC."""

    DEFAULT = "default"
    """As Triton's lines do: ``I1231 23:59:59.123456 PID NAME] TEXT``; the letter is the level's first."""
    ISO8601 = "ISO8601"
    """With the date in full: ``2026-12-31T23:59:59.123Z INFO NAME: TEXT``."""
    JSON = "json"
    """One JSON object per line: ``time``, ``level``, ``logger``, ``message`` and what else belongs to the event."""


_LINES: Final = {
    LogFormat.DEFAULT: ("%(level)s%(asctime)s.%(microseconds)06d %(process)d %(name)s] %(message)s", "%m%d %H:%M:%S"),
    LogFormat.ISO8601: ("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S"),
}


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What is logged, and how.

    Attributes:
        info: whether events are logged that an operator wants to know.
        warning: whether events are logged that may be a problem.
        error: whether events are logged that are one.
        verbose_level: 0 logs no details, more does.
        format: how an event is written.
    """

    info: bool = True
    warning: bool = True
    error: bool = True
    verbose_level: int = 0
    format: LogFormat = LogFormat.DEFAULT

    def shows(self, level: int) -> bool:
        """Whether events of a level of ``logging`` are logged; those that end the server always are."""
        if level >= logging.CRITICAL:
            return True
        if level >= logging.ERROR:
            return self.error
        if level >= logging.WARNING:
            return self.warning
        return self.info if level >= logging.INFO else self.verbose_level > 0


class _OneLine(logging.Formatter):
    """Keeps an event's text on one line; a traceback follows it, indented. So nothing can look like another event."""

    converter = staticmethod(time.gmtime)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = _printable(_bounded(record.message))
        vars(record).update(level=record.levelname[0], microseconds=int(record.created % 1 * 1e6))
        return super().formatMessage(record)

    def formatException(self, ei: _ExcInfo) -> str:  # noqa: N802 - the name is logging's
        text = _without_middle(super().formatException(ei))
        return "\n".join(f"    {_printable(line)}" for line in text.split("\n"))


class _Json(logging.Formatter):
    """Writes an event as one line of JSON, in ASCII. An event's own fields come as ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        event = {
            "time": f"{datetime.fromtimestamp(record.created, UTC):%Y-%m-%dT%H:%M:%S.%f}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": _bounded(record.getMessage()),
            **{
                name: _bounded(value) if isinstance(value, str) else value
                for name, value in getattr(record, "fields", {}).items()
            },
        }
        if record.exc_info:
            event["exception"] = _without_middle(self.formatException(record.exc_info))
        return json.dumps(event, default=str)


def _tells_of_one_call(record: logging.LogRecord) -> bool:
    """Whether an event is one of gRPC's that clients bring about, once a call.

    It tells metadata that are no text, which may be a token, and logs a traceback where a call is over before its end
    could be sent, as that of a message which cannot be decompressed sometimes is.
    """
    return record.name == _GRPC and any(each in str(record.msg) for each in _OF_ONE_CALL)


def _bounded(text: str) -> str:
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]} ... ({len(text)} characters)"


def _without_middle(traceback: str) -> str:
    """Bound a traceback, whose first frames tell most, and whose last ones; an error's text may be a caller's."""
    if len(traceback) <= 2 * _MOST_CHARACTERS:
        return traceback
    cut = len(traceback) - 2 * _MOST_CHARACTERS
    return f"{traceback[:_MOST_CHARACTERS]}\n... ({cut} characters)\n{traceback[-_MOST_CHARACTERS:]}"


def _printable(text: str) -> str:
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def configure(options: LogOptions) -> None:
    """Log to standard error; what was configured before no longer holds."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if options.format is LogFormat.JSON else _OneLine(*_LINES[options.format]))
    handler.addFilter(lambda record: options.shows(record.levelno) and not _tells_of_one_call(record))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    # Of other packages, problems alone are of interest.
    root.setLevel(logging.WARNING)
    # The filter decides; the level saves making events that it would drop.
    levels = (logging.DEBUG, logging.INFO, logging.WARNING)
    lowest = next((level for level in levels if options.shows(level)), logging.ERROR)
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(lowest)
