"""How the tasks of one signature are queued and joined."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from batching.policy import CALLERS_TIMEOUT, QueuePolicy

FillValue = bool | int | float | bytes
"""What shorter rows are filled up with; it must fit the input's dtype."""


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

    Make one object per signature and give the same object to all of its tasks: what may wait is limited over all tasks
    that carry the object, whatever their keys, so objects are compared by identity. Names, meanings and defaults are
    those of Triton's ModelDynamicBatching where it has them, else of TensorFlow Serving's batching parameters. Only
    ``JOIN`` uses the attributes about sizes of batches.

    Attributes:
        max_batch_size: most rows of a run, at least 1.
        joining: which tasks may be answered by one run.
        retry_failed: whether the members of a failed joint run are run again in smaller groups, so that only the guilty
            one fails. False where a run must never be repeated.
        oversize: what happens to tasks of more than ``max_batch_size`` rows.
        max_queue_delay_s: how long the first task of a batch that is neither full nor of a preferred size waits for
            company, even if a worker is free. 0 means not at all: a free worker takes what is there.
        latency_objective_s: if not 0, delay and size of batches are chosen so that 99 of 100 tasks are answered within
            so many seconds, and batches are as large as that allows and pays; see AdaptiveLimits.
            ``max_queue_delay_s`` must then be 0.
        preferred_batch_size: rows of batches that are run at once and in preference to others, largest first.
        allowed_batch_sizes: if not empty, the only sizes of runs, ascending, the last one ``max_batch_size``: batches
            are padded with copies of their first row, whose outputs are dropped.
        pad_variable_length_inputs: by name the inputs whose inner sizes may differ between the tasks of a batch, with
            the value that shorter ones are filled up with at the end. A task's key must leave these sizes out, as
            ``inner_shape`` does.
        trimmed_outputs: by name the outputs whose inner axes follow those of such an input, with its name: an axis
            that has the filled-up size is cut back to the size that the task's own input has. No other output is cut.
        max_queue_size: most tasks that may wait; one more is refused. 0 means no limit.
        max_queue_rows: most rows that may wait; 0 means no limit. A task is taken in any case if nothing waits.
        max_queue_bytes: most bytes of inputs that may wait, likewise.
        preserve_ordering: whether answers are given in the order in which tasks were submitted, over all keys and
            priorities; an early answer is held back until those before it are given. Tasks that are dropped do not
            take part.
        priority_levels: number of priorities; 1 is the highest, which overtakes all others. 0 means that all tasks
            are equal.
        default_priority_level: of tasks that ask for none, or for one that does not exist.
        default_queue_policy: rules for tasks whose priority has no policy of its own; None means that a task's own
            timeout counts as it is, and nothing else.
        priority_queue_policy: rules for the tasks of one priority.
        weight: how many batches are run for each batch of a signature of weight 1 while both have work waiting.

    Raises:
        ValueError: a value is out of its range or contradicts another.
    """

    max_batch_size: int
    joining: Joining = Joining.JOIN
    retry_failed: bool = True
    oversize: Oversize = Oversize.CUT
    max_queue_delay_s: float = 0.0
    latency_objective_s: float = 0.0
    preferred_batch_size: tuple[int, ...] = ()
    allowed_batch_sizes: tuple[int, ...] = ()
    pad_variable_length_inputs: Mapping[str, FillValue] = field(default_factory=lambda: MappingProxyType({}))
    trimmed_outputs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    max_queue_size: int = 0
    max_queue_rows: int = 0
    max_queue_bytes: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_priority_level: int = 0
    default_queue_policy: QueuePolicy | None = None
    priority_queue_policy: Mapping[int, QueuePolicy] = field(default_factory=lambda: MappingProxyType({}))
    weight: float = 1.0

    def __post_init__(self) -> None:
        _require(self.max_batch_size >= 1, f"max_batch_size must be at least 1, not {self.max_batch_size}")
        for name in ("max_queue_delay_s", "latency_objective_s"):
            value = getattr(self, name)
            _require(0 <= value < math.inf, f"{name} must be 0 or a positive number, but is {value}")
        _require(
            not (self.max_queue_delay_s and self.latency_objective_s),
            "max_queue_delay must be 0 where a latency_objective is given, because the delay is then chosen",
        )
        for name in ("max_queue_size", "max_queue_rows", "max_queue_bytes", "priority_levels"):
            _require(getattr(self, name) >= 0, f"{name} must not be negative, but is {getattr(self, name)}")
        _require(0 < self.weight < math.inf, f"weight must be a positive number, but is {self.weight}")
        self._check_batch_sizes()
        self._check_priorities()
        for output, followed in self.trimmed_outputs.items():
            _require(
                followed in self.pad_variable_length_inputs,
                f"trimmed_outputs: '{output}' follows '{followed}', which is not among pad_variable_length_inputs",
            )

    def inner_shape(self, name: str, shape: tuple[int, ...]) -> tuple[int | None, ...]:
        """What the key of a task must hold of the shape of an input: all but axis 0, None for sizes that may differ."""
        if name in self.pad_variable_length_inputs:
            return (None,) * (len(shape) - 1)
        return shape[1:]

    def level_of(self, priority: int) -> int:
        """The level of a task that asks for this priority: from 1 to ``priority_levels``, or 0 if there are none."""
        return priority if 1 <= priority <= self.priority_levels else self.default_priority_level

    def policy_of(self, level: int) -> QueuePolicy:
        """The rules for tasks of a level."""
        return self.priority_queue_policy.get(level) or self.default_queue_policy or CALLERS_TIMEOUT

    def padded_size(self, size: int) -> int:
        """The smallest allowed size of a run that has room for so many rows; ``size`` itself if there is none."""
        if not self.allowed_batch_sizes:
            return size
        return next((allowed for allowed in self.allowed_batch_sizes if allowed >= size), size)

    def _check_batch_sizes(self) -> None:
        for size in self.preferred_batch_size:
            _require(
                1 <= size <= self.max_batch_size,
                f"preferred_batch_size must be from 1 to max_batch_size {self.max_batch_size}, not {size}",
            )
        allowed = self.allowed_batch_sizes
        if allowed:
            ascending = allowed[0] >= 1 and all(low < high for low, high in itertools.pairwise(allowed))
            _require(ascending, f"allowed_batch_sizes must be positive and ascending, but are {allowed}")
            _require(
                allowed[-1] == self.max_batch_size,
                f"the last of allowed_batch_sizes must be max_batch_size {self.max_batch_size}, not {allowed[-1]}",
            )

    def _check_priorities(self) -> None:
        levels = self.priority_levels
        lowest = 1 if levels else 0
        _require(
            lowest <= self.default_priority_level <= levels,
            f"default_priority_level must be from {lowest} to {levels}, not {self.default_priority_level}",
        )
        for level in self.priority_queue_policy:
            _require(1 <= level <= levels, f"priority_queue_policy names the level {level} of {levels}")


def _require(holds: bool, text: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not holds:
        raise ValueError(text)
