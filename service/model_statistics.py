"""Counts and durations of what was inferred, per signature, as Triton's ModelStatistics defines them.

How they add up: a request that succeeded adds 1 to ``success``, ``queue`` and every ``compute_*`` count, its rows to
``inference_count``, and the whole run's durations to ``compute_*``, so that ``queue + compute_* <= success``. A run of
the model adds 1 to ``execution_count`` and, once, its durations to the ``batch_stats`` of its size, also when it
failed. Requests that validation refused are counted nowhere.
"""

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from service.histogram import Histogram

MOST_SIZES: Final = 1000
"""Sizes of runs that are told apart for a signature. Callers choose the size of what runs alone, without a limit."""

LATENCY_BOUNDS_NS: Final = tuple(
    round(seconds * 1e9)
    for seconds in (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
)
"""Where the buckets of the latency histogram end, in nanoseconds; few, because each is a series per signature."""


class FailureReason(Enum):
    """Why a request that was taken into the queue has no answer, in Triton's words."""

    REJECTED = "REJECTED"
    """It waited longer than its timeout or the queue's policy allows."""
    CANCELED = "CANCELED"
    """Its caller gave it up, or its deadline passed, while it waited."""
    BACKEND = "BACKEND"
    """The model failed."""
    OTHER = "OTHER"
    """The server stopped before its turn came, or has a defect."""


@dataclass(slots=True)
class Duration:
    """How often something happened and how long it took in all, in nanoseconds."""

    count: int = 0
    ns: int = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Count further events that took ``ns`` nanoseconds together."""
        self.count += count
        self.ns += ns


@dataclass(slots=True)
class Compute:
    """The three parts of running a model: joining the inputs, the run itself, splitting the outputs.

    Attributes:
        count: how often they happened. Plain numbers, because every run adds to them.
        input_ns: joining the inputs, in all.
        infer_ns: the runs themselves, in all.
        output_ns: splitting the outputs, in all.
    """

    count: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

    @property
    def input(self) -> Duration:
        """How often and how long inputs were joined."""
        return Duration(self.count, self.input_ns)

    @property
    def infer(self) -> Duration:
        """How often and how long it ran."""
        return Duration(self.count, self.infer_ns)

    @property
    def output(self) -> Duration:
        """How often and how long outputs were split."""
        return Duration(self.count, self.output_ns)

    def add(self, other: "Compute") -> None:
        """Add the counts and durations of another."""
        self.count += other.count
        self.input_ns += other.input_ns
        self.infer_ns += other.infer_ns
        self.output_ns += other.output_ns

    def add_run(self, durations: "RunDurations", count: int = 1) -> None:
        """Count one run, once or for each of several requests."""
        self.count += count
        self.input_ns += count * durations.input_ns
        self.infer_ns += count * durations.infer_ns
        self.output_ns += count * durations.output_ns


@dataclass(slots=True)
class RunDurations:
    """How long the parts of one run took, in nanoseconds."""

    input_ns: int
    infer_ns: int
    output_ns: int


@dataclass(slots=True)
class Statistics:
    """All counters of a signature, or of several added up.

    Attributes:
        inference_count: rows of the requests that succeeded; a request without a batch dimension counts as one.
        execution_count: runs of the model, failed ones included.
        last_inference_ms: when a run last ended, in milliseconds since the epoch; 0 means never.
        success: requests answered, with their whole time in the server.
        fail: requests that failed in the model, expired in the queue or were cancelled there, with that time.
        failures: the requests of ``fail`` by reason.
        latencies: the requests of ``success`` by their whole time in the server, in nanoseconds.
        queue: from arrival in the queue to the start of the run, of the requests answered.
        compute: the parts of the runs, once per request answered.
        batches: the parts of the runs, once per run, for each size of a run in rows; runs of a further size, beyond the
            first ``MOST_SIZES``, are in ``execution_count`` alone.
    """

    inference_count: int = 0
    execution_count: int = 0
    last_inference_ms: int = 0
    success: Duration = field(default_factory=Duration)
    fail: Duration = field(default_factory=Duration)
    failures: Counter[FailureReason] = field(default_factory=Counter)
    latencies: Histogram = field(default_factory=lambda: Histogram(LATENCY_BOUNDS_NS))
    queue: Duration = field(default_factory=Duration)
    compute: Compute = field(default_factory=Compute)
    batches: dict[int, Compute] = field(default_factory=lambda: defaultdict(Compute))

    def add(self, other: "Statistics") -> None:
        """Add the counters of another."""
        self.inference_count += other.inference_count
        self.execution_count += other.execution_count
        self.last_inference_ms = max(self.last_inference_ms, other.last_inference_ms)
        for mine, theirs in ((self.success, other.success), (self.fail, other.fail), (self.queue, other.queue)):
            mine.add(theirs.ns, theirs.count)
        self.failures.update(other.failures)
        self.latencies.add(other.latencies)
        self.compute.add(other.compute)
        for size, compute in other.batches.items():
            self.batches[size].add(compute)


class SignatureStatistics:
    """The counters of one signature of one loaded version. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._statistics = Statistics()

    def record_run(self, rows: int, durations: RunDurations) -> None:
        """Count one run of the model, whether it succeeded or failed.

        Args:
            rows: the size of the run; 1 when the signature has no batch dimension.
            durations: of its parts.
        """
        now_ms = time.time_ns() // 1_000_000
        with self._lock:
            statistics = self._statistics
            statistics.execution_count += 1
            statistics.last_inference_ms = now_ms
            if rows in statistics.batches or len(statistics.batches) < MOST_SIZES:
                statistics.batches[rows].add_run(durations)

    def record_successes(self, rows: int, totals_ns: Sequence[int], queue_ns: int, durations: RunDurations) -> None:
        """Count requests that were answered after one run.

        Args:
            rows: of all of them.
            totals_ns: the whole time in the server of each.
            queue_ns: their times in the queue, added up.
            durations: of the run that they took part in.
        """
        count = len(totals_ns)
        with self._lock:
            statistics = self._statistics
            statistics.inference_count += rows
            statistics.success.add(sum(totals_ns), count)
            statistics.queue.add(queue_ns, count)
            statistics.compute.add_run(durations, count)
            statistics.latencies.observe_all(totals_ns)

    def record_failure(self, total_ns: int, reason: FailureReason) -> None:
        """Count one request that failed after it was taken into the queue.

        Args:
            total_ns: its whole time in the server.
            reason: why.
        """
        with self._lock:
            self._statistics.fail.add(total_ns)
            self._statistics.failures[reason] += 1

    def snapshot(self) -> Statistics:
        """Return a copy in which all counters are of one moment."""
        copy = Statistics()
        with self._lock:
            copy.add(self._statistics)
        return copy


def total(parts: Iterable[SignatureStatistics]) -> Statistics:
    """Return the sum over several signatures."""
    return sum_of(part.snapshot() for part in parts)


def sum_of(parts: Iterable[Statistics]) -> Statistics:
    """Return the sum of counters of several signatures, each at one moment."""
    result = Statistics()
    for part in parts:
        result.add(part)
    return result
