"""Spans of traced requests: their steps and times, the caller's trace, the links of a batch, and what is sampled."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

import service
from service.errors import InternalError, SignetError
from service.servicer import Servicer
from service.settings import Settings
from service.spans import SpanTracer
from service.telemetry import tracer_from
from tests.service.serving import WAIT_S, Answer, Busy, kit, message, rows, serving

STEPS = ["decode", "queue", "merge", "run", "split", "encode"]
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Traced:
    """A tracer whose spans stay in memory."""

    def __init__(self, sampling_rate):
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = SpanTracer(provider, sampling_rate)

    def spans(self):
        """End tracing and return all spans."""
        self.tracer.close(WAIT_S)
        return self._exporter.get_finished_spans()


@contextmanager
def traced(served, sampling_rate=1.0):
    """Give a served kit a servicer that traces, and a function that sends requests to it."""
    made = Traced(sampling_rate)
    servicer = Servicer(
        served.repository, served.data_plane, name="mine", version="1", is_ready=lambda: True, tracer=made.tracer
    )

    def start(sent, metadata=()):
        answer = Answer()
        served.answers.append(answer)
        servicer.infer(sent, None, answer, trace=servicer.tracer.begin(metadata))
        return answer

    made.servicer, made.start = servicer, start
    yield made


def trace_one(sent=None, metadata=(), sampling_rate=1.0, servable=None):
    """Send one request; return its answer and all spans."""
    with serving(servable or kit()) as served, traced(served, sampling_rate) as made:
        answer = made.start(sent or message(), metadata).wait()
        return answer, made.spans()


def roots(spans):
    return [span for span in spans if span.name == "inference.GRPCInferenceService/ModelInfer"]


def children(spans, parent):
    found = [span for span in spans if span.parent is not None and span.parent.span_id == parent.context.span_id]
    return sorted(found, key=lambda span: (span.start_time, STEPS.index(span.name)))


def parent(*, sampled=True):
    return [("user-agent", "x"), ("traceparent", f"00-{TRACE_ID}-{SPAN_ID}-0{int(sampled)}")]


def test_request_has_a_span_with_its_steps_in_order_and_without_gaps():
    _, spans = trace_one(message(request_id="mine"))

    (root,) = roots(spans)
    steps = children(spans, root)
    assert [step.name for step in steps] == STEPS
    assert root.kind is SpanKind.SERVER
    told = {key: root.attributes[f"signet.{key}"] for key in ("model", "version", "signature", "request_id", "rows")}
    assert told == {"model": "clip", "version": 1, "signature": "serving_default", "request_id": "mine", "rows": 1}
    assert (steps[0].start_time, steps[-1].end_time) == (root.start_time, root.end_time)
    assert steps[0].start_time <= steps[0].end_time <= steps[1].end_time
    for before, after in pairwise(steps[1:]):
        assert before.end_time == after.start_time <= after.end_time
    assert root.status.status_code is StatusCode.UNSET


def test_callers_trace_goes_on():
    _, spans = trace_one(metadata=parent())

    (root,) = roots(spans)
    assert f"{root.context.trace_id:032x}" == TRACE_ID
    assert f"{root.parent.span_id:016x}" == SPAN_ID
    assert {f"{span.context.trace_id:032x}" for span in spans} == {TRACE_ID}


@pytest.mark.parametrize(
    "value", ["", "x", f"00-{'0' * 32}-{SPAN_ID}-01", f"00-{TRACE_ID}-{'0' * 16}-01", f"ff-{TRACE_ID}-{SPAN_ID}-01"]
)
def test_callers_trace_that_is_none_begins_a_new_one(value):
    _, spans = trace_one(metadata=[("traceparent", value)])

    (root,) = roots(spans)
    assert root.parent is None
    assert f"{root.context.trace_id:032x}" != TRACE_ID


@pytest.mark.parametrize(
    ("metadata", "rate", "count"),
    [
        (parent(sampled=True), 0.0, 1),
        (parent(sampled=False), 1.0, 0),
        ((), 0.0, 0),
        ((), 1.0, 1),
        ([("traceparent", "x")], 0.0, 0),
        ([("traceparent", b"x")], 0.0, 0),
    ],
)
def test_callers_decide_what_is_traced_and_else_the_rate(metadata, rate, count):
    answer, spans = trace_one(metadata=metadata, sampling_rate=rate)

    assert isinstance(answer, bytes)
    assert len(roots(spans)) == count


def test_members_of_a_batch_are_linked_with_it_both_ways():
    busy = Busy()
    with busy, traced(busy.served) as made:
        answers = [made.start(message({"x": rows(number)})) for number in (1, 2, 3)]
        busy.gate.opened.set()
        for answer in answers:
            assert isinstance(answer.wait(), bytes)
        spans = made.spans()

    (batch,) = [span for span in spans if span.name == "batch"]
    assert batch.parent is None
    assert batch.attributes == {"signet.batch.rows": 3, "signet.batch.requests": 3}
    assert {link.context.span_id for link in batch.links} == {root.context.span_id for root in roots(spans)}
    runs = [span for span in spans if span.name == "run"]
    assert [[link.context.span_id for link in run.links] for run in runs] == [[batch.context.span_id]] * 3
    assert len({run.context.trace_id for run in runs}) == 3


def test_request_that_ran_alone_has_no_batch():
    _, spans = trace_one()

    assert [span.name for span in spans if span.name in ("batch", "run")] == ["run"]
    assert all(span.links == () for span in spans)


def test_request_that_was_cut_has_the_steps_of_each_of_its_runs():
    with serving(kit(), default_max_batch_size=2) as served, traced(served) as made:
        made.start(message({"x": rows(*range(5))})).wait()
        spans = made.spans()

    (root,) = roots(spans)
    assert [span.name for span in children(spans, root)].count("run") == 3


def test_refused_request_is_an_error_that_was_only_decoded():
    answer, spans = trace_one(message(model="nope"))

    (root,) = roots(spans)
    assert isinstance(answer, SignetError)
    assert root.status.status_code is StatusCode.ERROR
    assert "'nope'" in root.status.description
    assert root.attributes["error.type"] == "NotFoundError"
    assert [span.name for span in children(spans, root)] == ["decode"]


def test_text_from_a_caller_is_bounded():
    _, spans = trace_one(message(model="x" * 100_000))
    _, others = trace_one(message(request_id="y" * 100_000))

    assert len(roots(spans)[0].status.description) <= 200
    assert len(roots(others)[0].attributes["signet.request_id"]) <= 200


def test_failed_run_is_an_error_of_the_request():
    def fail(_inputs):
        raise InternalError("the model broke")

    answer, spans = trace_one(message(signature="store"), servable=kit(store=fail))

    (root,) = roots(spans)
    assert isinstance(answer, InternalError)
    assert root.status.description == "the model broke"
    assert "run" in [span.name for span in children(spans, root)]


def test_waiting_traces_are_bounded(monkeypatch):
    monkeypatch.setattr("service.spans._MOST_WAITING", 0)

    answer, spans = trace_one()

    assert isinstance(answer, bytes)
    assert spans == ()


# Over the wire. --------------------------------------------------------------------------------------------------


@contextmanager
def collector():
    """A collector of OTLP; the block gets its address and the requests that it took."""
    taken = []

    class Service(trace_service_pb2_grpc.TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802 - the name is the protocol's
            taken.append(request)
            return trace_service_pb2.ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", taken
    finally:
        server.stop(0).wait()


def test_spans_reach_a_collector(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "embeddings")
    with collector() as (endpoint, taken):
        tracer = tracer_from(Settings(otlp_endpoint=endpoint, otlp_sampling_rate=1.0))
        trace = tracer.begin(())
        trace.end(None)
        tracer.close(WAIT_S)

    (resource_spans,) = [spans for request in taken for spans in request.resource_spans]
    attributes = {each.key: each.value.string_value for each in resource_spans.resource.attributes}
    assert attributes["service.name"] == "embeddings"
    assert attributes["service.version"] == service.__version__
    names = [span.name for scope in resource_spans.scope_spans for span in scope.spans]
    assert names == ["decode", "inference.GRPCInferenceService/ModelInfer"]


def test_collector_that_is_not_there_holds_nothing_up():
    tracer = tracer_from(Settings(otlp_endpoint="http://127.0.0.1:1", otlp_sampling_rate=1.0))
    tracer.begin(()).end(None)
    started = time.monotonic()

    tracer.close(0.2)

    assert time.monotonic() - started < 5
