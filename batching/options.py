"""How the tasks of one signature are queued and joined."""

from dataclasses import dataclass
from enum import Enum


class Joining(Enum):
    """Which tasks may be answered by one run."""

    JOIN = "join"
    """Rows of several tasks are put together along axis 0 and run once; the outputs are divided again."""
    ALONE = "alone"
    """Each task is a run of its own: for what is not row-wise, and for what changes state when it runs."""
    SHARE = "share"
    """Tasks without inputs that wait together get the same answer from one run: for pure constants only."""


class Oversize(Enum):
    """What happens to a task with more rows than a batch may have."""

    CUT = "cut"
    """It is run in parts, which are joined again in order."""
    REJECT = "reject"
    """It is refused when it is submitted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class QueueOptions:
    """Limits and rules for the tasks of one signature.

    Make one object per signature and give the same object to all of its tasks: the limits on what may wait count over
    all tasks that carry the object, whatever their keys, so objects are compared by identity. Names and defaults are
    those of Triton's ModelDynamicBatching where it has them.

    Attributes:
        max_batch_size: most rows of a run, at least 1. Tasks that run alone by nature (``ALONE``, ``SHARE``) are not
            limited by it.
        max_queue_delay_s: how long the first task of a batch that is not full waits for company, even if a worker is
            free. 0 means not at all: a free worker takes what is there.
        max_queue_size: most tasks that may wait; one more is refused. 0 means no limit.
        joining: which tasks may be answered by one run.
        oversize: what happens to tasks of more than ``max_batch_size`` rows when ``joining`` is ``JOIN``.
        retry_failed: whether the members of a failed joint run are run again one by one, so that only the guilty one
            fails. False where a run must never be repeated.

    Raises:
        ValueError: a value is out of its range.
    """

    max_batch_size: int
    max_queue_delay_s: float = 0.0
    max_queue_size: int = 0
    joining: Joining = Joining.JOIN
    oversize: Oversize = Oversize.CUT
    retry_failed: bool = True

    def __post_init__(self) -> None:
        _require(self.max_batch_size >= 1, f"max_batch_size must be at least 1, not {self.max_batch_size}")
        _require(
            self.max_queue_delay_s >= 0, f"max_queue_delay_s must not be negative, but is {self.max_queue_delay_s}"
        )
        _require(self.max_queue_size >= 0, f"max_queue_size must not be negative, but is {self.max_queue_size}")


def _require(holds: bool, text: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not holds:
        raise ValueError(text)
