"""What can go wrong with a task, in words that know no transport and no model."""


class BatchingError(Exception):
    """Base of every error that the batcher itself raises or hands to a task."""


class QueueFullError(BatchingError):
    """The queue holds as much as it may. The task was not taken; a later try may work."""


class OversizeError(BatchingError):
    """The task has more rows than a batch may have, and its options say that such tasks are refused."""


class DroppedError(BatchingError):
    """The task waited, but was taken out of the queue instead of being run."""


class StoppedError(DroppedError):
    """The scheduler has stopped, or takes nothing more."""


class QueueTimeoutError(DroppedError):
    """The task waited in the queue longer than the queue's policy or its own timeout allows."""


class DeadlineError(DroppedError):
    """The caller's deadline passed while the task waited."""


class TaskCancelledError(DroppedError):
    """The caller gave the task up while it waited."""


class RunError(BatchingError):
    """The run function answered something that no task can be answered with, such as a missing output."""


class RowsMismatchError(BatchingError):
    """An output of a run has another number of rows than were put in, so it cannot be divided among tasks."""
