"""What every call needs: to read its message, and on grpc.aio to end with the status that tells of an error."""

from typing import Any, TypeAlias, TypeVar

import grpc
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


async def abort(context: Context, error: Exception) -> bytes:
    """End a call with the status that tells of an error. The handler must return next; what it returns is not sent.

    grpc.aio ends a call with an exception, which it keeps with the call and raises again when the handler has returned.
    Its traceback, and that of the error it came after, would keep the handler's frames, and these the call: a cycle
    that holds the request and all of its tensors until the garbage collector comes by, seconds or hours later.
    """
    code, text = status_of(error)
    try:
        await context.abort(code, text)
    except grpc.aio.AbortError as kept:
        kept.__traceback__ = kept.__context__ = None
    return b""
