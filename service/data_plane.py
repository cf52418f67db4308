"""The path of one request, from its message to its answer.

    find servable -> find signature -> check inputs -> submit -> (worker: merge -> run -> split) -> record -> answer

The first four steps run in the thread that received the request, the others in the worker of the batch that the
request became part of. No thread waits for a request: its end is a call of ``done``.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

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
from batching.task import Task, TaskResult
from service.admission import Admission
from service.catalog import Catalog, Target
from service.classification import classify
from service.datatypes import BYTES
from service.errors import (
    UNEXPECTED,
    CancelledError,
    DeadlineExceededError,
    InternalError,
    InvalidArgumentError,
    SignetError,
    UnavailableError,
)
from service.input_checks import Place, check_inputs, check_outputs
from service.model_statistics import FailureReason, RunDurations
from service.model_version import ModelVersion, ServedSignature, SignatureKey
from service.parameters import RequestParameters
from service.request import Done, InferRequest, InferResponse, Ticket, name_request
from service.signature import TensorSpec
from service.slow_log import SlowLog
from service.tracing import RequestTrace, Subject


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is needed to answer a request once it was run."""

    place: Place
    loaded: ModelVersion
    served: ServedSignature
    outputs: tuple[TensorSpec, ...]
    classes: Mapping[str, int]
    is_named: bool
    received_ns: int
    done: Done


class _Answered:
    """The ticket of a request that was refused at once."""

    was_refused: Final = True

    def cancel(self) -> None:
        """Nothing is left to give up."""


class _Queued:
    """The ticket of a request that a scheduler has."""

    __slots__ = ("_loaded", "_task")

    was_refused: Final = False

    def __init__(self, loaded: ModelVersion, task: Task) -> None:
        self._loaded = loaded
        self._task = task

    def cancel(self) -> None:
        """Take the request out of its queue, if it still waits there."""
        self._loaded.scheduler.cancel(self._task)


_ANSWERED: Final = _Answered()

logger = logging.getLogger(__name__)


class DataPlane:
    """Takes inference requests. ``submit`` may be called from any thread."""

    def __init__(self, catalog: Catalog, admission: Admission | None = None, slow_request_ms: int = 0) -> None:
        """Create the data plane.

        Args:
            catalog: finds models.
            admission: says how much is taken on at a time; None means without limits.
            slow_request_ms: requests that take longer are logged; 0 means none.
        """
        self._catalog = catalog
        self.admission: Final = admission or Admission()
        self._slow_log = SlowLog(slow_request_ms)

    def submit(
        self, request: InferRequest, deadline: float | None, done: Done, trace: RequestTrace | None = None
    ) -> Ticket:
        """Take one request.

        Args:
            request: what the caller sent.
            deadline: when the caller stops to wait, on the monotonic clock in seconds; None means never.
            done: called exactly once with the answer or the failure, in this thread or another.
            trace: takes notes on what becomes of the request, where it is traced.

        Returns:
            The ticket with which the request can be given up.
        """
        received_ns = time.monotonic_ns()
        try:
            return self._submit(request, deadline, done, received_ns, trace)
        except SignetError as error:
            # Its traceback leads to this frame, and this frame to it: a cycle that would keep the request's tensors.
            answer = error.with_traceback(None)
        except Exception:
            logger.exception("unexpected error while taking a request for model '%s'", request.model_name)
            answer = InternalError(UNEXPECTED)
        done(answer)
        return _ANSWERED

    def _submit(
        self,
        request: InferRequest,
        deadline: float | None,
        done: Done,
        received_ns: int,
        trace: RequestTrace | None,
    ) -> Ticket:
        target = self._catalog.find(request.model_name, request.model_version)
        loaded = target.loaded
        parameters = request.parameters()
        served = _find_signature(target, parameters)
        place = Place(request.model_name, loaded.version, served.signature.name, request.id)
        tensors = request.inputs()
        requested = request.outputs()
        outputs = check_outputs(place, served.signature, [output.name for output in requested])
        inputs, rows = check_inputs(place, served, tensors)
        classes = {output.name: output.classes for output in requested if output.classes is not None}
        is_named = (parameters.signature or target.signature) is not None
        nbytes = sum(tensor.nbytes for tensor in tensors)
        taken = _Taken(place, loaded, served, outputs, classes, is_named, received_ns, done)
        task = Task(
            key=_key(loaded, served, inputs),
            size=rows,
            inputs=inputs,
            outputs=tuple(spec.name for spec in outputs),
            options=served.options,
            deadline=deadline,
            priority=parameters.priority,
            timeout_s=max(0, parameters.timeout_us) / 1e6,
            nbytes=nbytes,
            trace=trace,
            done=lambda _task, result: self._finish(taken, rows, nbytes, result),
        )
        self.admission.enter(nbytes)
        if trace is not None:
            trace.queue(Subject(loaded.name, loaded.version, served.signature.name, request.id, rows))
        try:
            loaded.scheduler.submit(task)
        except BaseException as error:
            self.admission.leave(nbytes)
            if not isinstance(error, BatchingError):
                raise
            if isinstance(error, StoppedError) and self._is_replaced(loaded, request):
                return self._submit(request, deadline, done, received_ns, trace)
            raise _refusal(error, place) from error
        return _Queued(loaded, task)

    def _finish(self, taken: _Taken, rows: int, nbytes: int, result: TaskResult) -> None:
        # First, so that who has an answer finds room for the next request.
        self.admission.leave(nbytes)
        self._slow_log.note(taken.place, rows, taken.received_ns, result)
        _finish(taken, rows, result)

    def _is_replaced(self, loaded: ModelVersion, request: InferRequest) -> bool:
        """Whether another version took the place of one that went out of service after it was found."""
        try:
            return self._catalog.find(request.model_name, request.model_version).loaded is not loaded
        except SignetError:
            return False


def _find_signature(target: Target, parameters: RequestParameters) -> ServedSignature:
    """Return the signature that the name or the parameter says; both may, if they agree."""
    if target.signature is None:
        return target.loaded.find_signature(parameters.signature)
    if parameters.signature not in (None, target.signature):
        raise InvalidArgumentError(
            f"the model name asks for signature '{target.signature}' of model '{target.loaded.name}', but the "
            f"parameter 'signature' for '{parameters.signature}'"
        )
    served = target.loaded.find_alias(target.signature)
    target.loaded.aliases_used.add(target.signature)
    return served


def _key(loaded: ModelVersion, served: ServedSignature, inputs: Mapping[str, np.ndarray]) -> SignatureKey:
    """Return what requests must have in common to share a run."""
    if served.max_batch_size:
        inner_shape = served.options.inner_shape
        tensors = tuple((name, array.dtype.str, inner_shape(name, array.shape)) for name, array in inputs.items())
    else:
        tensors = tuple((name, array.dtype.str, array.shape) for name, array in inputs.items())
    return loaded.name, loaded.version, served.signature.name, tensors


def _finish(taken: _Taken, rows: int, result: TaskResult) -> None:
    """Record a request that left the batcher, and answer it, whatever happened."""
    try:
        answer = _record_and_answer(taken, rows, result)
    except SignetError as error:
        answer = error.with_traceback(None)  # as in `submit`
    except Exception:
        logger.exception("unexpected error while answering %s", taken.place)
        answer = InternalError(f"{UNEXPECTED} ({taken.place})")
    taken.done(answer)


def _record_and_answer(taken: _Taken, rows: int, result: TaskResult) -> InferResponse | SignetError:
    total_ns = time.monotonic_ns() - taken.received_ns
    statistics = taken.served.statistics
    if result.error is not None:
        statistics.record_failure(total_ns, _failure_reason(result.error))
        return _failure(result.error, taken)
    statistics.record_success(
        rows,
        total_ns,
        result.queue_ns,
        RunDurations(result.compute_input_ns, result.compute_infer_ns, result.compute_output_ns),
    )
    return InferResponse(
        taken.place.model,
        str(taken.loaded.version),
        taken.place.request_id,
        taken.served.signature.name if taken.is_named else None,
        [_output(taken, spec, result.outputs[spec.name]) for spec in taken.outputs],
    )


def _output(taken: _Taken, spec: TensorSpec, array: np.ndarray) -> tuple[TensorSpec, np.ndarray]:
    """Return an output as the caller asked for it: the tensor, or its classes."""
    count = taken.classes.get(spec.name)
    if count is None:
        return spec, array
    served = taken.served
    try:
        told = classify(array, count, served.labels.get(spec.name, ()), batched=served.max_batch_size > 0)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error} (output {spec}, {taken.place})") from error
    return TensorSpec(spec.name, BYTES, None), told


def _refusal(error: BatchingError, place: Place) -> SignetError:
    """Say why a scheduler did not take a request."""
    if isinstance(error, QueueFullError):
        return UnavailableError(f"{name_request(place.request_id)} Exceeds maximum queue size: {error} ({place})")
    if isinstance(error, StoppedError):
        return UnavailableError(f"the server is stopping or the version is being unloaded ({place})")
    return place.invalid(str(error))


def _failure_reason(error: BaseException) -> FailureReason:
    """Return what a request that was taken and has no answer is counted under."""
    if isinstance(error, QueueTimeoutError):
        return FailureReason.REJECTED
    if isinstance(error, TaskCancelledError | DeadlineError):
        return FailureReason.CANCELED
    if isinstance(error, SignetError | RunError | RowsMismatchError):
        return FailureReason.BACKEND
    return FailureReason.OTHER


def _failure(error: BaseException, taken: _Taken) -> SignetError:
    """Say why a request that was taken has no answer."""
    place = taken.place
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
