"""Numbers about a scheduler for the outside."""

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from batching.batch import Batch
from batching.batch_record import BatchRecord
from batching.cut import Part
from batching.errors import BatchingError
from batching.options import QueueOptions


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """What waits under one key.

    Attributes:
        tasks: tasks that wait.
        rows: their rows.
    """

    tasks: int
    rows: int


@dataclass(frozen=True, slots=True)
class LaneCounts:
    """The tasks of one options object: what waits now, and what has happened since the scheduler started.

    Attributes:
        queued_tasks: tasks that wait.
        queued_rows: their rows.
        queues: what waits under each key.
        started_tasks: tasks that were given to a worker.
        waited_s: how long those waited, in seconds, all together.
        longest_wait_s: how long the one waited that waited longest.
        runs: executions by number of rows, without padding, retries and failures included; those of more than
            ``max_batch_size`` rows count under ``max_batch_size + 1``, so that there is a bounded number of entries.
        failed_runs: executions that raised.
        retried_runs: executions of tasks that had been run before in a larger group.
        drops: tasks that were refused or never run, by the class of the error that they got.
        mismatch: why tasks are not joined any more, or None.
    """

    queued_tasks: int
    queued_rows: int
    queues: Mapping[Hashable, QueueCounts]
    started_tasks: int
    waited_s: float
    longest_wait_s: float
    runs: Mapping[int, int]
    failed_runs: int
    retried_runs: int
    drops: Mapping[type[BatchingError], int]
    mismatch: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """What a scheduler does at one moment.

    Attributes:
        queued_tasks: tasks that wait.
        queued_rows: their rows.
        running_batches: batches that run.
        running_tasks: tasks in them.
        running: the same by options object; one of which nothing runs is left out.
        lanes: the numbers of each options object that was ever used.
    """

    queued_tasks: int
    queued_rows: int
    running_batches: int
    running_tasks: int
    running: Mapping[QueueOptions, int]
    lanes: Mapping[QueueOptions, LaneCounts]


@dataclass(slots=True)
class Tally:
    """Counts what happens in a lane; the attributes are those of LaneCounts. Not thread-safe."""

    started_tasks: int = 0
    waited_s: float = 0.0
    longest_wait_s: float = 0.0
    runs: Counter[int] = field(default_factory=Counter)
    failed_runs: int = 0
    retried_runs: int = 0
    drops: Counter[type[BatchingError]] = field(default_factory=Counter)
    mismatch: str | None = None

    def took(self, batch: Batch, now: float) -> None:
        """Count the waiting of the tasks of a batch; that of a cut task ends with its first part."""
        for task in batch.tasks:
            if isinstance(task, Part) and task.start > 0:
                continue
            wait_s = now - task.queued_at
            self.started_tasks += 1
            self.waited_s += wait_s
            self.longest_wait_s = max(self.longest_wait_s, wait_s)

    def took_at_once(self, tasks: int) -> None:
        """Count tasks that did not wait."""
        self.started_tasks += tasks

    def ran(self, record: BatchRecord) -> None:
        """Count an execution."""
        self.runs[min(record.size, record.options.max_batch_size + 1)] += 1
        self.failed_runs += record.error is not None
        self.retried_runs += record.is_retry

    def snapshot(self, queued_tasks: int, queued_rows: int, queues: Mapping[Hashable, QueueCounts]) -> LaneCounts:
        """The numbers so far, with what waits now."""
        return LaneCounts(
            queued_tasks=queued_tasks,
            queued_rows=queued_rows,
            queues=queues,
            started_tasks=self.started_tasks,
            waited_s=self.waited_s,
            longest_wait_s=self.longest_wait_s,
            runs=dict(self.runs),
            failed_runs=self.failed_runs,
            retried_runs=self.retried_runs,
            drops=dict(self.drops),
            mismatch=self.mismatch,
        )
