"""Tasks that were taken out of a queue to be run together."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from batching.options import QueueOptions
from batching.task import Task

_FEW_TASKS = 4  # to find one bad task among so few, halves would not take fewer runs than single ones


@dataclass(slots=True, eq=False)
class Batch:
    """Tasks of one key that one worker runs together, in the order in which their rows are joined.

    Attributes:
        tasks: at least one; they belong to the worker, which must finish each of them.
        size: rows that are put into the run.
        by_rows: whether each task gets its own rows of the outputs; else each gets the outputs as they are.
        key: the key that all of the tasks have.
        options: the rules that all of the tasks have.
    """

    tasks: Sequence[Task]
    size: int
    by_rows: bool
    key: Hashable = field(init=False)
    options: QueueOptions = field(init=False)

    def __post_init__(self) -> None:
        first = self.tasks[0]
        self.key = first.key
        self.options = first.options

    @property
    def padded_size(self) -> int:
        """Rows that are put into the run with padding, which only outputs that are divided by rows can lose again."""
        return self.options.padded_size(self.size) if self.by_rows else self.size

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that any of the tasks wants, each once; sorted if the tasks want different ones."""
        first = self.tasks[0].outputs
        if self._wants_the_same:
            return first
        return tuple(sorted({name for task in self.tasks for name in task.outputs}))

    @property
    def may_be_retried(self) -> bool:
        """Whether running the tasks in smaller groups is allowed and can have another outcome than running them all."""
        if len(self.tasks) == 1 or not self.options.retry_failed:
            return False
        return self.by_rows or not self._wants_the_same

    @property
    def _wants_the_same(self) -> bool:
        first = self.tasks[0].outputs
        return len(self.tasks) == 1 or [task.outputs for task in self.tasks].count(first) == len(self.tasks)

    def singles(self) -> list["Batch"]:
        """A batch for each task, in the same order."""
        return [self.subset([task]) for task in self.tasks]

    def divided(self) -> list["Batch"]:
        """Smaller batches with the same tasks in the same order: halves of a large batch, single ones of a small."""
        if len(self.tasks) <= _FEW_TASKS:
            return self.singles()
        half = len(self.tasks) // 2
        return [self.subset(self.tasks[:half]), self.subset(self.tasks[half:])]

    def subset(self, tasks: Sequence[Task]) -> "Batch":
        """A batch of some of the tasks, at least one."""
        return batch_of(tasks, by_rows=self.by_rows)


def batch_of(tasks: Sequence[Task], *, by_rows: bool) -> Batch:
    """A batch of these tasks, at least one. Tasks that are not divided by rows share the rows of the first."""
    return Batch(tasks, sum(task.size for task in tasks) if by_rows else tasks[0].size, by_rows)
