"""What to trace: settings of the whole server, and of single models that differ from them."""

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from service.errors import InvalidArgumentError, UnimplementedError

OFF: Final = "OFF"
LEVELS: Final = ("TIMESTAMPS", "TENSORS")
"""What a trace can hold, in the order in which levels are told."""

_MAX_RATE: Final = 2**32 - 1
_MAX_COUNT: Final = 2**31 - 1
# As C reads numbers: blanks before the digits and anything behind them pass.
_NUMBER: Final = re.compile(r"[ \t\n\v\f\r]*([+-]?)0*([0-9]+)")
_MAX_DIGITS: Final = 10
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class TraceSettings:
    """What holds for one model.

    Attributes:
        levels: what is traced, some of ``LEVELS``; nothing means that tracing is off.
        rate: one in so many requests is traced.
        count: how many more requests are traced; -1 means no end.
        log_frequency: traces per file; 0 means one file for all.
        file: where traces go; fixed at the start of the server.
    """

    levels: tuple[str, ...] = ()
    rate: int = 1000
    count: int = -1
    log_frequency: int = 0
    file: str = ""


class TraceBook:
    """The settings of the server and of each model. Methods may be called from any thread.

    A model inherits what it has no value of its own for. The server's values, in turn, go back to those of the start
    when they are cleared.
    """

    def __init__(self, start: TraceSettings = TraceSettings()) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._server: dict[str, Any] = {}
        self._models: dict[str, dict[str, Any]] = {}

    def settings(self, model: str | None = None) -> TraceSettings:
        """Return what holds for a model, or for those without values of their own."""
        with self._lock:
            return self._combine(self._server, self._models.get(model, {}) if model else {})

    def update(self, model: str | None, changes: Mapping[str, Sequence[str]]) -> TraceSettings:
        """Change settings, all of them or none.

        Args:
            model: the model that they are for; None means the whole server.
            changes: by the protocol's key of a setting, its values; none clears the setting. Unknown keys pass.

        Returns:
            What holds then.

        Raises:
            InvalidArgumentError: a value is malformed or out of range, or tracing is switched on without a file.
            UnimplementedError: the file is to be changed.
        """
        read = _read_changes(changes)
        with self._lock:
            old = self._models.get(model, {}) if model else self._server
            new = {name: value for name, value in {**old, **read}.items() if value is not None}
            settings = self._combine(self._server, new) if model else self._combine(new, {})
            if settings.levels and not settings.file:
                raise InvalidArgumentError("Attempting to set invalid trace setting :trace file name is not given")
            if model:
                self._models[model] = new
            else:
                self._server = new
        return settings

    def _combine(self, server: Mapping[str, Any], model: Mapping[str, Any]) -> TraceSettings:
        return replace(self._start, **{**server, **model})


def _read_changes(changes: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the new value of each field, None where it is cleared."""
    if "trace_file" in changes:
        raise UnimplementedError("trace file location can not be updated through network protocol")
    return {
        field: read(key, changes[key]) if changes[key] else None
        for key, (field, read) in _READERS.items()
        if key in changes
    }


def _read_levels(_key: str, values: Sequence[str]) -> tuple[str, ...]:
    if OFF in values and len(values) > 1:
        raise InvalidArgumentError("Expect only one trace level 'OFF' is specified")
    return tuple(level for level in LEVELS if level in values)


def _read_rate(key: str, values: Sequence[str]) -> int:
    return _read_number(key, values, 0, _MAX_RATE)


def _read_count(key: str, values: Sequence[str]) -> int:
    count = _read_number(key, values, -_MAX_COUNT - 1, _MAX_COUNT)
    if count < -1:
        raise InvalidArgumentError(f"Unable to parse '{key}'. Expecting value >= -1, got: {values[0][:_SHOWN]}")
    return count


def _read_number(key: str, values: Sequence[str], least: int, most: int) -> int:
    if len(values) > 1:
        raise InvalidArgumentError(f"expect only 1 value for '{key}'")
    text = values[0]
    match = _NUMBER.match(text)
    if match is None:
        raise InvalidArgumentError(f"Unable to parse '{key}', got: {text[:_SHOWN]}")
    sign, digits = match.groups()
    number = int(sign + digits) if len(digits) <= _MAX_DIGITS else most + 1
    if not least <= number <= most:
        told = f"[ {max(least, -1)}, {most} ]"
        raise InvalidArgumentError(f"Unable to parse '{key}', value is out of range {told}, got: {text[:_SHOWN]}")
    return number


_READERS: Final[dict[str, tuple[str, Callable[[str, Sequence[str]], Any]]]] = {
    "trace_level": ("levels", _read_levels),
    "trace_rate": ("rate", _read_rate),
    "trace_count": ("count", _read_count),
    "log_frequency": ("log_frequency", _read_rate),
}
