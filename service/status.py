"""Domain errors to gRPC status codes: one closed table."""

import logging
from typing import Final

import grpc

from service import errors

_CODES: Final[dict[type[errors.SignetError], grpc.StatusCode]] = {
    errors.InvalidArgumentError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.InternalError: grpc.StatusCode.INTERNAL,
    errors.UnimplementedError: grpc.StatusCode.UNIMPLEMENTED,
    errors.ResourceExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.CancelledError: grpc.StatusCode.CANCELLED,
    errors.LoadError: grpc.StatusCode.INVALID_ARGUMENT,
}

UNEXPECTED: Final = "internal error; the server's log has the details"

# Status texts travel in HTTP/2 headers, which clients limit to 8 KiB in all.
_MAX_TEXT: Final = 4000

logger = logging.getLogger(__name__)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return the status code and text that tell a caller of an error.

    An error that is none of the domain's is a defect: it is logged, and the caller sees a fixed text.
    """
    code = _CODES.get(type(error))  # type: ignore[arg-type]
    if code is None:
        logger.error("unexpected error while answering a call", exc_info=error)
        return grpc.StatusCode.INTERNAL, UNEXPECTED
    text = str(error)
    return code, text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]} ..."
