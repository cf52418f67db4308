"""Numbers about a scheduler for the outside."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass


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
class Counts:
    """What waits and what runs at one moment.

    Attributes:
        queued_tasks: tasks that wait.
        queued_rows: their rows.
        running_batches: batches that run.
        running_tasks: tasks in them.
        running_rows: rows in them.
        queues: what waits under each key.
    """

    queued_tasks: int
    queued_rows: int
    running_batches: int
    running_tasks: int
    running_rows: int
    queues: Mapping[Hashable, QueueCounts]
