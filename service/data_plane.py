"""The path of one request, from its message to its answer.

    find servable -> find signature -> check inputs -> submit -> (worker: merge -> run -> split) -> record -> answer

The first four steps run in the thread that received the request, the others in the worker of the batch that the
request became part of. No thread waits for a request: its end is a call of ``done``.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final, cast

import numpy as np

from batching.batch_record import BatchRecord
from batching.burst import Burst
from batching.errors import BatchingError, StoppedError
from batching.merge import Arrays
from batching.task import NO_ARRAYS, Task, TaskResult
from service.admission import Admission
from service.catalog import Catalog
from service.classification import classify
from service.datatypes import BYTES
from service.errors import (
    UNEXPECTED,
    InternalError,
    InvalidArgumentError,
    SignetError,
)
from service.failures import failure, failure_reason, refusal
from service.input_checks import Place
from service.model_statistics import RunDurations
from service.model_version import ModelVersion
from service.plans import Plan, find_plan
from service.request import AnswerForm, Done, InferRequest, InferResponse, Ticket
from service.signature import TensorSpec
from service.slow_log import SlowLog
from service.tracing import RequestTrace, Subject


@dataclass(slots=True, eq=False)
class _Inference(Task):
    """A request that a scheduler has: its share of a batch, and what is needed to answer it. It is its own ticket."""

    data_plane: "DataPlane" = field(kw_only=True, repr=False)
    request: InferRequest = field(kw_only=True, repr=False)
    request_id: str = field(kw_only=True)
    plan: Plan = field(kw_only=True)
    received_ns: int = field(kw_only=True)
    answer: Done = field(kw_only=True, repr=False)
    was_refused: ClassVar[bool] = False

    @property
    def place(self) -> Place:
        """What to name in errors."""
        return self.plan.place(self.request_id)

    def cancel(self) -> None:
        """Take the request out of its queue, if it still waits there."""
        self.plan.loaded.scheduler.cancel(self)

    def refuse(self, error: Exception) -> None:
        """Answer, because the scheduler did not take the request; see ``Task.refuse``."""
        self.data_plane.refuse(self, error)

    @classmethod
    def finish_all(cls, tasks: Sequence[Task], answers: Sequence[Arrays], record: BatchRecord, started: float) -> None:
        """Answer all requests of a run; see ``Task.finish_all``."""
        inferences = cast(Sequence[_Inference], tasks)
        inferences[0].data_plane.finish_all(inferences, answers, record, started)


class _Answered:
    """The ticket of a request that was refused at once."""

    was_refused: Final = True

    def cancel(self) -> None:
        """Nothing is left to give up."""


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
        self,
        request: InferRequest,
        deadline: float | None,
        done: Done,
        trace: RequestTrace | None = None,
        burst: Burst | None = None,
    ) -> Ticket:
        """Take one request.

        Args:
            request: what the caller sent.
            deadline: when the caller stops to wait, on the monotonic clock in seconds; None means never.
            done: called exactly once with the answer or the failure, in this thread or another.
            trace: takes notes on what becomes of the request, where it is traced.
            burst: that it came in; nothing may happen before the burst is run. None for a request of its own.

        Returns:
            The ticket with which the request can be given up.
        """
        received_ns = time.monotonic_ns()
        try:
            return self._submit(request, deadline, done, received_ns, trace, burst)
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
        burst: Burst | None,
    ) -> Ticket:
        plan, request_id, inputs, nbytes = find_plan(self._catalog, request)
        inference = _Inference(
            plan.key,
            plan.rows,
            inputs,
            plan.output_names,
            plan.served.options,
            self._finish,
            deadline,
            plan.priority,
            plan.timeout_s,
            nbytes,
            trace,
            data_plane=self,
            request=request,
            request_id=request_id,
            plan=plan,
            received_ns=received_ns,
            answer=done,
        )
        self.admission.enter(nbytes)
        if trace is not None:
            loaded = plan.loaded
            trace.queue(Subject(loaded.name, loaded.version, plan.served.signature.name, request_id, plan.rows))
        if burst is not None:
            burst.submit(plan.loaded.scheduler, inference)
            return inference
        try:
            plan.loaded.scheduler.submit(inference)
        except Exception as error:  # noqa: BLE001 - it is raised again unless another version takes the request
            return self._try_again(inference, error)
        return inference

    def _try_again(self, inference: _Inference, error: Exception) -> Ticket:
        """Let another version serve a request that a scheduler did not take; raises where there is none.

        Raises:
            SignetError: why it was not taken.
        """
        self.admission.leave(inference.nbytes or 0)
        if not isinstance(error, BatchingError):
            raise error
        request = inference.request
        if isinstance(error, StoppedError) and self._is_replaced(inference.plan.loaded, request):
            return self._submit(
                request, inference.deadline, inference.answer, inference.received_ns, inference.trace, None
            )
        raise refusal(error, inference.place) from error

    def refuse(self, inference: _Inference, error: Exception) -> None:
        """Answer a request of a burst that a scheduler did not take."""
        try:
            self._try_again(inference, error)
        except SignetError as known:
            answer = known.with_traceback(None)
        except Exception:
            logger.exception("unexpected error while taking a request (%s)", inference.place)
            answer = InternalError(f"{UNEXPECTED} ({inference.place})")
        else:
            return
        inference.answer(answer)

    def _finish(self, inference: Task, result: TaskResult) -> None:
        assert isinstance(inference, _Inference)  # noqa: S101 - only these have this callback; for the type checker
        # First, so that who has an answer finds room for the next request.
        self.admission.leave(inference.nbytes or 0)
        if self._slow_log.is_on:
            self._slow_log.note(inference.place, inference.size, inference.received_ns, result)
        total_ns = time.monotonic_ns() - inference.received_ns
        statistics = inference.plan.served.statistics
        if result.error is not None:
            statistics.record_failure(total_ns, failure_reason(result.error))
            inference.answer(failure(result.error, inference.place))
        else:
            durations = RunDurations(result.compute_input_ns, result.compute_infer_ns, result.compute_output_ns)
            statistics.record_successes(inference.size, [total_ns], result.queue_ns, durations)
            inference.answer(_answer(inference, result.outputs))

    def finish_all(
        self, inferences: Sequence[_Inference], answers: Sequence[Arrays], record: BatchRecord, started: float
    ) -> None:
        """Record requests that were run together, all of one signature, and answer them; see ``Task.finish_all``."""
        now_ns = time.monotonic_ns()
        if self._slow_log.is_on:
            for each, outputs in zip(inferences, answers, strict=True):
                self._slow_log.note(
                    each.place, each.size, each.received_ns, record.result(each, outputs, None, started)
                )
        totals_ns = []
        rows, nbytes, queued_s = 0, 0, 0.0
        for each in inferences:
            totals_ns.append(now_ns - each.received_ns)
            rows += each.size
            nbytes += each.nbytes or 0
            queued_s += started - each.queued_at
        durations = RunDurations(record.compute_input_ns, record.compute_infer_ns, record.compute_output_ns)
        inferences[0].plan.served.statistics.record_successes(rows, totals_ns, int(queued_s * 1e9), durations)
        # Before any answer, so that who has one finds room for the next request.
        self.admission.leave(nbytes, len(inferences))
        for each, outputs in zip(inferences, answers, strict=True):
            each.is_finished = True
            each.inputs = NO_ARRAYS
            try:
                each.answer(_answer(each, outputs))
            except Exception:
                logger.exception("unexpected error while answering %s", each.place)

    def _is_replaced(self, loaded: ModelVersion, request: InferRequest) -> bool:
        """Whether another version took the place of one that went out of service after it was found."""
        try:
            return self._catalog.find(request.model_name, request.model_version).loaded is not loaded
        except SignetError:
            return False


def _answer(inference: _Inference, outputs: Arrays) -> InferResponse | SignetError:
    """Return the answer to a request that was run, whatever happens."""
    plan = inference.plan
    try:
        if plan.classes:
            return _classified_answer(inference, outputs)
        return InferResponse(plan.answer, inference.request_id, [outputs[name] for name in plan.output_names])
    except SignetError as error:
        return error.with_traceback(None)  # as in `submit`
    except Exception:
        logger.exception("unexpected error while answering %s", inference.place)
        return InternalError(f"{UNEXPECTED} ({inference.place})")


def _classified_answer(inference: _Inference, outputs: Arrays) -> InferResponse:
    form = inference.plan.answer
    specs, arrays = zip(*[_classified(inference, spec, outputs[spec.name]) for spec in form.outputs], strict=True)
    return InferResponse(
        AnswerForm(form.model_name, form.model_version, form.signature, specs), inference.request_id, arrays
    )


def _classified(inference: _Inference, spec: TensorSpec, array: np.ndarray) -> tuple[TensorSpec, np.ndarray]:
    """Return an output as the caller asked for it: the tensor, or its classes."""
    count = inference.plan.classes.get(spec.name)
    if count is None:
        return spec, array
    served = inference.plan.served
    try:
        told = classify(array, count, served.labels.get(spec.name, ()), batched=served.max_batch_size > 0)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error} (output {spec}, {inference.place})") from error
    return TensorSpec(spec.name, BYTES, None), told
