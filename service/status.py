"""Domain errors to gRPC status codes: one closed table."""

import logging
from typing import Final

import grpc

from service import errors

_CODES: Final[dict[type[errors.SignetError], grpc.StatusCode]] = {
    errors.InvalidArgumentError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotFoundError: grpc.StatusCode.NOT_FOUND,
    errors.AlreadyExistsError: grpc.StatusCode.ALREADY_EXISTS,
    errors.UnavailableError: grpc.StatusCode.UNAVAILABLE,
    errors.InternalError: grpc.StatusCode.INTERNAL,
    errors.UnimplementedError: grpc.StatusCode.UNIMPLEMENTED,
    errors.ResourceExhaustedError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.DeadlineExceededError: grpc.StatusCode.DEADLINE_EXCEEDED,
    errors.CancelledError: grpc.StatusCode.CANCELLED,
    errors.UnauthenticatedError: grpc.StatusCode.UNAUTHENTICATED,
    errors.PermissionDeniedError: grpc.StatusCode.PERMISSION_DENIED,
    errors.LoadError: grpc.StatusCode.INVALID_ARGUMENT,
}

# Status texts travel in HTTP/2 headers, which clients limit to 8 KiB in all, and there any byte that is not printable
# ASCII, and the percent sign, takes three.
_MAX_TEXT_BYTES: Final = 4000

logger = logging.getLogger(__name__)


def status_of(error: BaseException) -> tuple[grpc.StatusCode, str]:
    """Return the status code and text that tell a caller of an error.

    An error that is none of the domain's is a defect: it is logged, and the caller sees a fixed text.
    """
    code = _CODES.get(type(error))  # type: ignore[arg-type]
    if code is None:
        logger.error("unexpected error while answering a call", exc_info=error)
        return grpc.StatusCode.INTERNAL, errors.UNEXPECTED
    return code, _shorten(str(error))


def _shorten(text: str) -> str:
    # A file's name may hold bytes that are no UTF-8; Python carries them as characters that gRPC cannot send.
    text = text.encode("utf-8", "backslashreplace").decode()
    size = 0
    for position, character in enumerate(text):
        plain = " " <= character <= "~" and character != "%"
        size += 1 if plain else 3 * len(character.encode())
        if size > _MAX_TEXT_BYTES:
            return f"{text[:position]} ..."
    return text
