"""Tells of requests that took long, and where their time went."""

import logging
import threading
import time
from typing import Final

from batching.task import TaskResult
from service.input_checks import Place

_PAUSE_NS: Final = 100_000_000
"""From one line to the next: under overload every request is slow, and the log must not make it worse."""

logger = logging.getLogger(__name__)


class SlowLog:
    """May be used from any thread."""

    def __init__(self, threshold_ms: int) -> None:
        """Create a log for requests that took longer than so many milliseconds; 0 logs none."""
        self._threshold_ns: Final = threshold_ms * 1_000_000
        self._lock: Final = threading.Lock()
        self._next_ns = 0
        self._untold = 0

    @property
    def is_on(self) -> bool:
        """Whether any request is logged."""
        return self._threshold_ns > 0

    def note(self, place: Place, rows: int, received_ns: int, result: TaskResult) -> None:
        """Log a request that has left the batcher, if it was slow.

        Args:
            place: model, version, signature and id of the request.
            rows: its size.
            received_ns: when it came, on the monotonic clock.
            result: what became of it.
        """
        now_ns = time.monotonic_ns()
        total_ns = now_ns - received_ns
        if total_ns <= self._threshold_ns:
            return
        with self._lock:
            if now_ns < self._next_ns:
                self._untold += 1
                return
            self._next_ns = now_ns + _PAUSE_NS
            untold, self._untold = self._untold, 0
        _log(place, rows, total_ns, result, untold)


def _log(place: Place, rows: int, total_ns: int, result: TaskResult, untold: int) -> None:
    parts = {
        "total_ms": total_ns,
        "queue_ms": result.queue_ns,
        "compute_input_ms": result.compute_input_ns,
        "compute_infer_ms": result.compute_infer_ns,
        "compute_output_ms": result.compute_output_ns,
    }
    spans = {name: round(ns / 1e6, 3) for name, ns in parts.items()}
    fields = {
        "model": place.model,
        "version": place.version,
        "signature": place.signature,
        "id": place.request_id,
        "rows": rows,
        "batch_rows": result.batch_size,
        "failed": result.error is not None,
        **spans,
        "untold": untold,
    }
    told = ", ".join(f"{name} {span}" for name, span in spans.items())
    logger.warning(
        "slow request: %s, rows %d of %d: %s%s",
        place,
        rows,
        result.batch_size,
        told,
        f"; {untold} more since the line before" if untold else "",
        extra={"fields": fields},
    )
