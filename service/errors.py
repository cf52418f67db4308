"""What can go wrong with a request or a load, in words that know no transport.

Each class names one kind of failure. ``service.status`` turns a class into a gRPC status code in one closed table;
everything else that is raised is a defect and becomes INTERNAL with a fixed text.
"""

from typing import Final

UNEXPECTED: Final = "internal error; the server's log has the details"
"""What a caller is told of a defect; where the place is known it follows in brackets."""


class SignetError(Exception):
    """Base of every expected failure. The text is meant for the caller and names what was expected and what came."""


class InvalidArgumentError(SignetError):
    """The request is malformed: a wrong name, type, shape, size or parameter."""


class NotFoundError(SignetError):
    """The model, version, region or alias that the request names does not exist."""


class AlreadyExistsError(SignetError):
    """The name that the request gives to something new is taken."""


class UnavailableError(SignetError):
    """The server cannot serve this now, a later try may: not ready, queue full, timed out in the queue, draining."""


class InternalError(SignetError):
    """The server or the model failed; also a fault of the caller that Triton calls INTERNAL."""


class UnimplementedError(SignetError):
    """A part of the protocol that this server does not offer."""


class ResourceExhaustedError(SignetError):
    """The answer is larger than a message can be, too many regions are open, or a device has no memory left."""


class DeadlineExceededError(SignetError):
    """The caller's deadline passed before the answer was ready."""


class CancelledError(SignetError):
    """The caller gave the request up."""


class UnauthenticatedError(SignetError):
    """The call lacks a token that is known here."""


class PermissionDeniedError(SignetError):
    """The call has a token that is known here, but not good for it."""


class LoadError(SignetError):
    """A model version cannot be loaded; the text says why and names the file or directory."""
