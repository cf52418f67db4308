"""What a queue does with tasks that wait too long or are too many: Triton's ModelQueuePolicy."""

import math
from dataclasses import dataclass
from enum import Enum


class TimeoutAction(Enum):
    """What happens to a task whose timeout passes while it waits."""

    REJECT = "reject"
    """It is finished with QueueTimeoutError."""
    DELAY = "delay"
    """It is run after all tasks of its own and of higher priority whose timeout has not passed."""


@dataclass(frozen=True, kw_only=True)
class QueuePolicy:
    """Rules for waiting; names, meanings and defaults are those of Triton's ModelQueuePolicy.

    Attributes:
        timeout_action: what happens to a task that waits too long.
        default_timeout_s: how long a task may wait; 0 means as long as it takes.
        allow_timeout_override: whether a task's own timeout counts where it is shorter than a default that is not 0.
        max_queue_size: most tasks that may wait under this policy; one more is refused. 0 means no limit.

    Raises:
        ValueError: a value is out of its range.
    """

    timeout_action: TimeoutAction = TimeoutAction.REJECT
    default_timeout_s: float = 0.0
    allow_timeout_override: bool = False
    max_queue_size: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.default_timeout_s < math.inf:
            raise ValueError(f"default_timeout_s must be 0 or a positive number, but is {self.default_timeout_s}")
        if self.max_queue_size < 0:
            raise ValueError(f"max_queue_size must not be negative, but is {self.max_queue_size}")

    def timeout_s(self, asked_s: float) -> float:
        """How long a task may wait that asked for a timeout of its own (0 if it did not); 0 means no limit."""
        if self.allow_timeout_override and 0 < asked_s < self.default_timeout_s:
            return asked_s
        return self.default_timeout_s


@dataclass(frozen=True, kw_only=True)
class CallersTimeout(QueuePolicy):
    """The policy where none is configured: a task's own timeout is all that counts."""

    def timeout_s(self, asked_s: float) -> float:
        """How long a task may wait that asked for a timeout of its own; 0 means no limit."""
        return max(0.0, asked_s)


CALLERS_TIMEOUT = CallersTimeout()
