"""Choosing the delay and the size of batches by a latency objective."""

import math
from typing import Protocol

_WINDOW_TASKS = 200  # a 99th percentile of fewer says little
_RUN_SHARE = 0.5  # of the objective: a task may come when a run has just begun, and then waits for two
_BACK_OFF = 0.9
_SMALLEST_STEP = 1 / 400  # of the objective; what a useless step costs a caller who waits alone
_GROWTH = 1 / 4
_LOSS = 0.02  # of throughput, from which on a longer delay is taken to be the cause
_SHORTEST_HOLD, _LONGEST_HOLD = 8, 64  # windows before a delay that did not pay is tried again


class Limits(Protocol):
    """What a queue asks for when it forms a batch; options that do not adapt are their own limits."""

    @property
    def max_batch_size(self) -> int:
        """Rows to which a batch is filled."""
        ...

    @property
    def max_queue_delay_s(self) -> float:
        """How long the first task of a batch that is not full waits for company, in seconds."""
        ...


class AdaptiveLimits:
    """Keeps the 99th percentile of latency under an objective, and within it makes batches as large as that pays.

    Size: after each run that took longer than half of the objective the limit goes back to 9/10 of the run's rows;
    after each full batch that did not it grows by one.

    Delay: is reconsidered after each window of 200 tasks. If the 99th percentile of the time from submission to answer
    was above the objective it is halved. Otherwise it grows by a quarter, at least by 1/400 of the objective, if it
    matters because not all batches were full. If throughput falls after that, the step is taken back and tried again
    after 8 windows, then 16, up to 64: it only holds up callers who wait for their answers before they ask again.
    Where throughput is what comes in, whatever the delay, chance makes it fall as often as rise, and the delay stays
    short.

    Additive increase and multiplicative decrease of the size by the time of the runs is the rule of Clipper (Crankshaw
    et al., NSDI 2017, section 4.3.1), with half of the objective for the run, because waiting for a run that has begun
    comes on top. That a delay can pay is section 4.3.2 there; how it is chosen is our own.

    Times are seconds of one monotonic clock that the caller reads. Not thread-safe.

    Attributes:
        max_batch_size: rows to which a batch is filled at present.
        max_queue_delay_s: how long a batch waits for company at present.
    """

    __slots__ = (
        "_bound",
        "_delay_before",
        "_hold",
        "_latencies",
        "_next_hold",
        "_num_full",
        "_num_runs",
        "_objective_s",
        "_rows",
        "_started",
        "_throughput",
        "max_batch_size",
        "max_queue_delay_s",
    )

    def __init__(self, objective_s: float, max_batch_size: int) -> None:
        """Begin with the largest size and no delay.

        Args:
            objective_s: seconds from submission to answer that 99 of 100 tasks should not exceed.
            max_batch_size: most rows of a batch.
        """
        self.max_batch_size = max_batch_size
        self.max_queue_delay_s = 0.0
        self._bound = max_batch_size
        self._objective_s = objective_s
        self._delay_before: float | None = None  # the last step, if it was up and is not judged yet
        self._throughput = 0.0  # rows per second in the last window
        self._hold = 0
        self._next_hold = _SHORTEST_HOLD
        self._start_window(-math.inf)

    def ran(self, size: int, run_s: float, latencies: list[float], now: float) -> None:
        """Learn from a batch.

        Args:
            size: its rows.
            run_s: how long the run took.
            latencies: of each of its tasks, the time from submission to answer.
            now: when it was finished.
        """
        if run_s > _RUN_SHARE * self._objective_s:
            self.max_batch_size = max(1, min(self.max_batch_size, int(size * _BACK_OFF)))
        elif size >= self.max_batch_size:
            self.max_batch_size = min(self.max_batch_size + 1, self._bound)
        self._latencies += latencies
        self._rows += size
        self._num_runs += 1
        self._num_full += size >= self.max_batch_size
        if self._started == -math.inf:
            self._start_window(now)
        elif len(self._latencies) >= _WINDOW_TASKS and now > self._started:
            self._adapt_delay(self._rows / (now - self._started))
            self._start_window(now)

    def _start_window(self, now: float) -> None:
        self._latencies: list[float] = []
        self._rows = 0
        self._num_runs = 0
        self._num_full = 0
        self._started = now

    def _adapt_delay(self, throughput: float) -> None:
        smallest = self._objective_s * _SMALLEST_STEP
        p99 = sorted(self._latencies)[int(0.99 * len(self._latencies))]
        before, self._delay_before = self._delay_before, None
        self._hold -= 1
        if p99 > self._objective_s:
            self.max_queue_delay_s = self.max_queue_delay_s / 2 if self.max_queue_delay_s > smallest else 0.0
        elif before is not None and throughput < (1 - _LOSS) * self._throughput:
            self.max_queue_delay_s = before
            self._hold, self._next_hold = self._next_hold, min(2 * self._next_hold, _LONGEST_HOLD)
        elif self._hold <= 0 and self._num_full < self._num_runs:
            self._delay_before = self.max_queue_delay_s
            self.max_queue_delay_s += max(smallest, self.max_queue_delay_s * _GROWTH)
        self._throughput = throughput
