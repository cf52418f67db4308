"""What is known of one execution once it is over."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from batching.errors import RowsMismatchError
from batching.options import QueueOptions
from batching.task import Task, TaskResult

if TYPE_CHECKING:
    from batching.merge import Arrays


@dataclass(slots=True, eq=False)
class BatchRecord:
    """What one execution of the run function was, for statistics.

    Attributes:
        key: the key of its tasks.
        options: the options of its tasks.
        size: rows put in, without padding.
        padded_size: rows put in, with padding.
        num_tasks: tasks that ran together.
        is_retry: whether its tasks had been run before, in a larger group or in parts.
        traces: what its tasks want to be found by, each once; tasks may have none.
        compute_input_ns: joining the inputs.
        compute_infer_ns: the run itself.
        compute_output_ns: dividing the outputs.
        error: why it failed, or None.
        mismatch: says which output did not have one row per row put in, or None. This is no failure: the tasks get
            their answers from runs of their own instead.
    """

    key: Hashable
    options: QueueOptions
    size: int
    padded_size: int
    num_tasks: int
    is_retry: bool
    traces: tuple[Any, ...] = ()
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0
    error: BaseException | None = None
    mismatch: RowsMismatchError | None = None

    def result(self, task: Task, outputs: "Arrays", error: BaseException | None, started: float) -> TaskResult:
        """Return what a task that took part gets.

        Args:
            task: the task.
            outputs: its outputs.
            error: why there are none, or None.
            started: when the first run of its batch was begun, in the time of ``queued_at``.
        """
        return TaskResult(
            outputs,
            error,
            int((started - task.queued_at) * 1e9),
            self.compute_input_ns,
            self.compute_infer_ns,
            self.compute_output_ns,
            self.size,
        )
