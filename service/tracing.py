"""What is noted of a request that is traced. Spans are made of it afterwards, away from the request's path.

A request that is not traced has no trace, and what would note something sees None in its place.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from batching.batch_record import BatchRecord

Metadata = Iterable[tuple[str, str | bytes]]


@dataclass(slots=True, eq=False)
class RunNote:
    """One run of the model, which all requests of its batch share. Times are those of ``time.monotonic_ns``.

    Attributes:
        traces: of the requests of the batch those that are traced.
        record: the run's size and durations.
        ended_ns: when its outputs were divided.
        span: the span of the batch, once it was made.
    """

    traces: tuple["RequestTrace", ...]
    record: BatchRecord
    ended_ns: int
    span: Any = None

    @property
    def begun_ns(self) -> int:
        """When its inputs began to be joined."""
        record = self.record
        return self.ended_ns - record.compute_input_ns - record.compute_infer_ns - record.compute_output_ns


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request was about, as far as it was understood."""

    model: str
    version: int
    signature: str
    request_id: str
    rows: int


class RequestTrace:
    """The notes on one request. Each is written by one thread at a time; the last one hands the trace on.

    Attributes:
        parent: the caller's span as the tracer understood it, or None.
        begun_ns: when the request came in.
        clock_offset_ns: what makes of its times those since the epoch; it is taken once, so that they fit together.
        queued_ns: when it was given to a queue; 0 means never.
        ended_ns: when its answer was ready to be sent.
        subject: what it was about; None for a request that was refused before that was known.
        runs: those that it took part in, also failed ones that were repeated.
        error: the failure that it was answered with, or None.
        span: its span, once it was made.
    """

    __slots__ = (
        "_hand_on",
        "begun_ns",
        "clock_offset_ns",
        "ended_ns",
        "error",
        "parent",
        "queued_ns",
        "runs",
        "span",
        "subject",
    )

    def __init__(self, parent: Any, hand_on: Callable[["RequestTrace"], None]) -> None:
        self.begun_ns: Final = time.monotonic_ns()
        self.clock_offset_ns: Final = time.time_ns() - self.begun_ns
        self.parent: Final = parent
        self.queued_ns = 0
        self.ended_ns = 0
        self.subject: Subject | None = None
        self.runs: list[RunNote] = []
        self.error: BaseException | None = None
        self.span: Any = None
        self._hand_on = hand_on

    def queue(self, subject: Subject) -> None:
        """Note that the request is understood and goes to its queue."""
        self.subject = subject
        self.queued_ns = time.monotonic_ns()

    def end(self, error: BaseException | None) -> None:
        """Note that the answer is ready, and hand the trace on; nothing is noted any more."""
        self.ended_ns = time.monotonic_ns()
        self.error = error
        self.runs = list(self.runs)
        self._hand_on(self)


class Tracer(Protocol):
    """Decides what is traced."""

    def begin(self, metadata: Metadata) -> RequestTrace | None:
        """Return the trace of a request that comes in now, None when it is not traced.

        Args:
            metadata: of the call; ``traceparent`` and ``tracestate`` tell the caller's trace.
        """
        ...


def note_run(record: BatchRecord) -> None:
    """Note a run that has just ended with all traces of its batch."""
    note = RunNote(record.traces, record, time.monotonic_ns())
    for trace in record.traces:
        trace.runs.append(note)
