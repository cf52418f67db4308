"""Joins requests of the same kind to batches and runs them on a fixed number of worker threads.

Knows no transport, no model and no framework: a task has rows, a key, a deadline and a callback; what a batch does is a
function given at construction.

    scheduler = BatchScheduler(run, workers=2)
    options = QueueOptions(max_batch_size=64)
    scheduler.submit(Task(("double", "f4", (3,)), 1, {"x": rows}, ("y",), options, done))
"""

from batching.batch_record import BatchRecord
from batching.counts import Counts, LaneCounts, QueueCounts
from batching.errors import (
    BatchingError,
    DeadlineError,
    DroppedError,
    OversizeError,
    QueueFullError,
    QueueTimeoutError,
    RowsMismatchError,
    RunError,
    StoppedError,
    TaskCancelledError,
)
from batching.options import FillValue, Joining, Oversize, QueueOptions
from batching.policy import QueuePolicy, TimeoutAction
from batching.scheduler import BatchScheduler
from batching.task import Task, TaskResult

__all__ = [
    "BatchRecord",
    "BatchScheduler",
    "BatchingError",
    "Counts",
    "DeadlineError",
    "DroppedError",
    "FillValue",
    "Joining",
    "LaneCounts",
    "Oversize",
    "OversizeError",
    "QueueCounts",
    "QueueFullError",
    "QueueOptions",
    "QueuePolicy",
    "QueueTimeoutError",
    "RowsMismatchError",
    "RunError",
    "StoppedError",
    "Task",
    "TaskCancelledError",
    "TaskResult",
    "TimeoutAction",
]
