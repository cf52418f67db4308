"""What every call on grpc.aio needs: to read its message, and to end with the status that tells of an error."""

from typing import Any, NoReturn, TypeAlias, TypeVar

from google.protobuf.message import DecodeError, Message

from service.errors import InternalError
from service.status import status_of

M = TypeVar("M", bound=Message)

Context: TypeAlias = Any
"""A ``grpc.aio.ServicerContext``, which publishes no types."""


def parse(request_type: type[M], data: bytes) -> M:
    """Return the message in the bytes of a call.

    Raises:
        InternalError: they are no such message; the status is Triton's.
    """
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        raise InternalError("Unable to parse request") from error


async def abort(context: Context, error: Exception) -> NoReturn:
    """End a call with the status that tells of an error."""
    code, text = status_of(error)
    await context.abort(code, text)
    raise AssertionError("abort always raises")
