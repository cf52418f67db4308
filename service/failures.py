"""What the batcher's errors mean to callers and to the statistics."""

import logging

from batching.errors import (
    BatchingError,
    DeadlineError,
    QueueFullError,
    QueueTimeoutError,
    RowsMismatchError,
    RunError,
    StoppedError,
    TaskCancelledError,
)
from service.errors import (
    UNEXPECTED,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    SignetError,
    UnavailableError,
)
from service.input_checks import Place
from service.model_statistics import FailureReason
from service.request import name_request

logger = logging.getLogger(__name__)


def refusal(error: BatchingError, place: Place) -> SignetError:
    """Say why a scheduler did not take a request."""
    if isinstance(error, QueueFullError):
        return UnavailableError(f"{name_request(place.request_id)} Exceeds maximum queue size: {error} ({place})")
    if isinstance(error, StoppedError):
        return UnavailableError(f"the server is stopping or the version is being unloaded ({place})")
    return place.invalid(str(error))


def failure_reason(error: BaseException) -> FailureReason:
    """Return what a request that was taken and has no answer is counted under."""
    if isinstance(error, QueueTimeoutError):
        return FailureReason.REJECTED
    if isinstance(error, TaskCancelledError | DeadlineError):
        return FailureReason.CANCELED
    if isinstance(error, SignetError | RunError | RowsMismatchError):
        return FailureReason.BACKEND
    return FailureReason.OTHER


def failure(error: BaseException, place: Place) -> SignetError:
    """Say why a request that was taken has no answer."""
    if isinstance(error, DeadlineError):
        return DeadlineExceededError(f"the deadline passed while the request waited ({place})")
    if isinstance(error, QueueTimeoutError):
        return UnavailableError(f"Request timeout expired ({place})")
    if isinstance(error, TaskCancelledError):
        return CancelledError(f"the request was cancelled ({place})")
    if isinstance(error, StoppedError):
        return UnavailableError(f"the server stopped before the request was run ({place})")
    if isinstance(error, SignetError):
        return error.with_traceback(None)  # likewise: it leads to the frame that ran the batch
    logger.error("unexpected error while running %s", place, exc_info=error)
    return InternalError(f"{UNEXPECTED} ({place})")
