"""The parameters of an inference request: which keys are known, what type each takes, what they mean.

The rules and texts are those of Triton's parameters extension, so that clients which match on them keep working.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from typing import Final

from service.errors import InvalidArgumentError, UnimplementedError

Value = bool | int | float | str
Parameter = tuple[str, str | None, Value | None]
"""Key, kind (the name of the wire's field, or None when no value is set) and value."""

_FREE_KINDS: Final = frozenset({"int64_param", "bool_param", "string_param", "double_param"})
_RESERVED_PREFIX: Final = "triton_"
_MAX_SEQUENCE_ID_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class RequestParameters:
    """What a request's parameters say to this server; keys that say nothing to it are checked and dropped.

    Attributes:
        signature: the signature asked for; None when not given or empty.
        priority: 1 is the highest level; 0 means the default level.
        timeout_us: how long the request may wait in the queue, in microseconds; 0 or less means no limit.
    """

    signature: str | None = None
    priority: int = 0
    timeout_us: int = 0


DEFAULTS: Final = RequestParameters()


def read_parameters(parameters: Iterable[Parameter]) -> RequestParameters:
    """Check every parameter and return what they say.

    Raises:
        InvalidArgumentError: a reserved key, or a value of the wrong type or range; the text names the key.
        UnimplementedError: a string ``sequence_id`` that is too long.
    """
    result = DEFAULTS
    for key, kind, value in parameters:
        reader = _READERS.get(key)
        if reader is not None:
            result = reader(result, kind, value)
        elif key.startswith(_RESERVED_PREFIX):
            raise InvalidArgumentError(
                f"parameter keys starting with '{_RESERVED_PREFIX}' are reserved for Triton usage. Only the following "
                f"keys starting with '{_RESERVED_PREFIX}' are allowed: triton_enable_empty_final_response"
            )
        else:
            _require(key, kind, _FREE_KINDS, "int64_param, bool_param, or string_param")
    return result


def _require(key: str, kind: str | None, kinds: Container[str | None], expected: str) -> None:
    if kind not in kinds:
        raise InvalidArgumentError(f"invalid value type for '{key}' parameter, expected {expected}.")


def _read_signature(so_far: RequestParameters, kind: str | None, value: Value | None) -> RequestParameters:
    _require("signature", kind, ("string_param",), "string_param")
    return replace(so_far, signature=str(value) or None)


def _read_priority(so_far: RequestParameters, kind: str | None, value: Value | None) -> RequestParameters:
    _require("priority", kind, ("int64_param", "uint64_param"), "int64_param or uint64_param")
    priority = int(value or 0)
    if priority < 0:
        raise InvalidArgumentError("invalid value for 'priority', expected value >= 0.")
    return replace(so_far, priority=priority)


def _read_timeout(so_far: RequestParameters, kind: str | None, value: Value | None) -> RequestParameters:
    _require("timeout", kind, ("int64_param",), "int64_param")
    return replace(so_far, timeout_us=int(value or 0))


def _check_sequence_id(so_far: RequestParameters, kind: str | None, value: Value | None) -> RequestParameters:
    _require("sequence_id", kind, ("int64_param", "string_param"), "int64_param or string_param")
    if isinstance(value, str) and len(value.encode()) > _MAX_SEQUENCE_ID_BYTES:
        # Triton's text; it counts bytes, too.
        raise UnimplementedError(f"string correlation ID cannot be longer than {_MAX_SEQUENCE_ID_BYTES} characters")
    return so_far


def _bool_checker(key: str) -> "_Reader":
    def check(so_far: RequestParameters, kind: str | None, _value: Value | None) -> RequestParameters:
        _require(key, kind, ("bool_param",), "bool_param")
        return so_far

    return check


_Reader = Callable[[RequestParameters, str | None, Value | None], RequestParameters]

# A model without sequence batching takes the sequence keys and does nothing with them; so does Triton.
_READERS: Final[dict[str, _Reader]] = {
    "signature": _read_signature,
    "priority": _read_priority,
    "timeout": _read_timeout,
    "sequence_id": _check_sequence_id,
    **{key: _bool_checker(key) for key in ("sequence_start", "sequence_end", "triton_enable_empty_final_response")},
}
