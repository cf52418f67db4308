"""The parameters by which a tensor says that its data are in shared memory."""

from collections.abc import Iterable
from typing import Final

from service.errors import InvalidArgumentError
from service.parameters import Parameter
from service.shared_memory import WindowName

_REGION: Final = "shared_memory_region"
_BYTE_SIZE: Final = "shared_memory_byte_size"
_OFFSET: Final = "shared_memory_offset"
_KINDS: Final = {_REGION: "string_param", _BYTE_SIZE: "int64_param", _OFFSET: "int64_param"}


def read_window(tensor: str, parameters: Iterable[Parameter]) -> WindowName | None:
    """Read where a tensor's data are; None means in the message. Other parameters are ignored, as Triton does.

    Raises:
        InvalidArgumentError: a value of the wrong type, a region without size, or a size or offset without region.
    """
    found = {}
    for key, kind, value in parameters:
        expected = _KINDS.get(key)
        if expected is None:
            continue
        if kind != expected:
            raise InvalidArgumentError(
                f"invalid value type for '{key}' parameter for tensor '{tensor}', expected {expected}."
            )
        found[key] = value
    if not found:
        return None
    for key in found:
        if _REGION not in found:
            raise InvalidArgumentError(
                f"'{key}' can not be specified without '{_REGION}' parameter for tensor '{tensor}'"
            )
    if _BYTE_SIZE not in found:
        raise InvalidArgumentError(
            f"'{_BYTE_SIZE}' must be specified along with '{_REGION}' parameter for tensor '{tensor}'"
        )
    return WindowName(str(found[_REGION]), int(found.get(_OFFSET) or 0), int(found[_BYTE_SIZE] or 0))
