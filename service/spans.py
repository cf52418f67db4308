"""OpenTelemetry spans of traced requests: sampled when a request comes in, made and exported when it is answered.

A request's span has children for its steps: decode, queue, merge, run, split, encode. A batch has a span of its own
that links to the requests in it, and their run spans link back, so that either leads to the other.
"""

import logging
import os
import queue
import random
import threading
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, get_current_span, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.tracing import Metadata, RequestTrace, RunNote

_PROPAGATED: Final = frozenset({"traceparent", "tracestate"})
_MOST_WAITING: Final = 10_000
"""Traces that wait to become spans; more are dropped, so that tracing takes a bounded amount of memory."""

_MAX_TEXT: Final = 200

logger = logging.getLogger(__name__)


def export_to(endpoint: str, sampling_rate: float, version: str) -> "SpanTracer":
    """Return a tracer whose spans go to a collector, over OTLP and gRPC.

    Args:
        endpoint: such as ``http://collector:4317``; https for TLS.
        sampling_rate: the share of requests to trace among those whose callers do not say.
        version: of the server.
    """
    name = os.environ.get("OTEL_SERVICE_NAME", "signet")
    provider = TracerProvider(resource=Resource.create({"service.name": name, "service.version": version}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
    logger.info("tracing %g of the requests whose callers do not say, for %s", sampling_rate, endpoint)
    return SpanTracer(provider, sampling_rate)


class SpanTracer:
    """Traces a share of all requests. One thread of its own makes the spans."""

    def __init__(self, provider: TracerProvider, sampling_rate: float) -> None:
        """Start to trace.

        Args:
            provider: takes the spans; it must sample all, since what is sampled is decided before.
            sampling_rate: the share of requests to trace among those whose callers do not say.
        """
        self._provider: Final = provider
        self._spans: Final = provider.get_tracer("signet")
        self._rate: Final = sampling_rate
        self._propagator: Final = TraceContextTextMapPropagator()
        self._waiting: Final[queue.SimpleQueue[RequestTrace | None]] = queue.SimpleQueue()
        self._thread: Final = threading.Thread(target=self._work, name="traces", daemon=True)
        self._thread.start()

    def begin(self, metadata: Metadata) -> RequestTrace | None:
        """Return the trace of a request that comes in now, None when it is not traced; see ``Tracer.begin``."""
        carrier = {key: value for key, value in metadata if key in _PROPAGATED and isinstance(value, str)}
        if carrier:
            parent = self._propagator.extract(carrier)
            told = get_current_span(parent).get_span_context()
            if told.is_valid:
                return RequestTrace(parent, self._take) if told.trace_flags.sampled else None
        return RequestTrace(None, self._take) if random.random() < self._rate else None  # noqa: S311 - no secret

    def close(self, timeout_s: float) -> None:
        """Make and export what is there, for so many seconds at most."""
        self._waiting.put(None)
        self._thread.join(timeout_s)
        # It may wait for a collector that does not answer.
        closing = threading.Thread(target=self._provider.shutdown, name="traces-close", daemon=True)
        closing.start()
        closing.join(timeout_s)

    def _take(self, trace: RequestTrace) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(trace)

    def _work(self) -> None:
        while (trace := self._waiting.get()) is not None:
            try:
                self._make(trace)
            except Exception:
                logger.exception("a trace could not be made into spans")

    def _make(self, trace: RequestTrace) -> None:
        span = self._span_of(trace)
        _describe(span, trace)
        step = _Steps(self._spans, span, trace.clock_offset_ns)
        step("decode", trace.begun_ns, trace.queued_ns or trace.ended_ns)
        if trace.queued_ns:
            step("queue", trace.queued_ns, trace.runs[0].begun_ns if trace.runs else trace.ended_ns)
        for run in trace.runs:
            self._make_run(step, run)
        if trace.runs:
            step("encode", trace.runs[-1].ended_ns, trace.ended_ns)
        span.end(trace.clock_offset_ns + trace.ended_ns)

    def _make_run(self, step: "_Steps", run: RunNote) -> None:
        record, begun_ns = run.record, run.begun_ns
        merged_ns = begun_ns + record.compute_input_ns
        ran_ns = merged_ns + record.compute_infer_ns
        step("merge", begun_ns, merged_ns)
        links = [] if record.num_tasks == 1 else [Link(self._batch_of(run).get_span_context())]
        step(
            "run",
            merged_ns,
            ran_ns,
            links,
            {"signet.batch.rows": record.size, "signet.batch.requests": record.num_tasks},
        )
        step("split", ran_ns, run.ended_ns)

    def _span_of(self, trace: RequestTrace) -> Span:
        """Return the span of a request. Its batch may want to link to it before the request has ended."""
        if trace.span is None:
            trace.span = self._spans.start_span(
                "inference.GRPCInferenceService/ModelInfer",
                trace.parent or Context(),
                SpanKind.SERVER,
                {"rpc.system": "grpc", "rpc.service": "inference.GRPCInferenceService", "rpc.method": "ModelInfer"},
                start_time=trace.clock_offset_ns + trace.begun_ns,
            )
        span: Span = trace.span
        return span

    def _batch_of(self, run: RunNote) -> Span:
        """Return the span of a batch, which is made for the first of its requests that ends."""
        if run.span is None:
            offset_ns = run.traces[0].clock_offset_ns
            links = [Link(self._span_of(trace).get_span_context()) for trace in run.traces]
            attributes = {"signet.batch.rows": run.record.size, "signet.batch.requests": run.record.num_tasks}
            run.span = self._spans.start_span(
                "batch", Context(), attributes=attributes, links=links, start_time=offset_ns + run.begun_ns
            )
            run.span.end(offset_ns + run.ended_ns)
        span: Span = run.span
        return span


class _Steps:
    """Makes the children of one request's span."""

    def __init__(self, spans: Any, parent: Span, clock_offset_ns: int) -> None:
        self._spans = spans
        self._offset_ns = clock_offset_ns
        self._context = set_span_in_context(parent, Context())

    def __call__(
        self, name: str, begun_ns: int, ended_ns: int, links: list[Link] | None = None, attributes: Any = None
    ) -> None:
        span = self._spans.start_span(
            name, self._context, attributes=attributes, links=links, start_time=self._offset_ns + begun_ns
        )
        span.end(self._offset_ns + ended_ns)


def _describe(span: Span, trace: RequestTrace) -> None:
    subject = trace.subject
    if subject is not None:
        span.set_attributes(
            {
                "signet.model": subject.model,
                "signet.version": subject.version,
                "signet.signature": subject.signature,
                "signet.request_id": subject.request_id[:_MAX_TEXT],
                "signet.rows": subject.rows,
            }
        )
    if trace.error is not None:
        span.set_status(Status(StatusCode.ERROR, str(trace.error)[:_MAX_TEXT]))
        span.set_attribute("error.type", type(trace.error).__name__)
