"""One request's share of a batch, and what becomes of it."""

import logging
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from batching.options import QueueOptions

if TYPE_CHECKING:
    from batching.batch_queue import BatchQueue
    from batching.batch_record import BatchRecord
    from batching.cut import Assembly
    from batching.merge import Arrays

logger = logging.getLogger(__name__)

NO_ARRAYS: "Arrays" = MappingProxyType({})


@dataclass(slots=True, eq=False)
class TaskResult:
    """The answer to a task.

    Attributes:
        outputs: an array for each output that the task wanted; empty if there is an ``error``. Arrays of tasks that
            ran together share memory and must not be written to.
        error: why there is no answer, or None.
        queue_ns: from being submitted to the start of the (first) run, or to being dropped.
        compute_input_ns: joining the inputs of the whole batch.
        compute_infer_ns: running the whole batch.
        compute_output_ns: dividing the outputs of the whole batch.
        batch_size: rows that ran together, without padding; 0 if the task was never run.
    """

    outputs: "Arrays"
    error: BaseException | None = None
    queue_ns: int = 0
    compute_input_ns: int = 0
    compute_infer_ns: int = 0
    compute_output_ns: int = 0
    batch_size: int = 0


def failure(error: BaseException, queue_ns: int = 0) -> TaskResult:
    """The result of a task that was dropped before it ran."""
    return TaskResult(NO_ARRAYS, error, queue_ns)


@dataclass(slots=True, eq=False)
class Task:
    """A number of rows that wait to be run, and the callback that gets the answer.

    A task is submitted once, to one scheduler. Its attributes belong to the scheduler from then on. All tasks of a
    scheduler are of one class; a subclass may answer those that ran together in one go, see ``finish_all``.

    Attributes:
        key: tasks with equal keys can be joined. It must hold all that keeps tasks apart: whose signature it is, and
            for each input the dtype and the shape without axis 0.
        size: rows, the size of axis 0 of every input; 0 is allowed. For tasks that are never joined it only counts in
            statistics: give 1 if there is no better number.
        inputs: an array per input name. They are not copied and must not change until ``done`` is called.
        outputs: names of the wanted outputs, each once.
        options: the rules of the signature, one object for all of its tasks.
        done: called exactly once with this task and its result, from any thread. It should return quickly, because a
            worker may wait for it; what it raises is logged and otherwise ignored.
        deadline: the task is dropped if it still waits at this time of ``time.monotonic()``, in seconds.
        priority: the level that is asked for, 1 for the most urgent; 0, or one that the options do not have, means the
            options' default.
        timeout_s: how long the task may wait, in seconds, as far as the options' policy lets it choose; 0 means that it
            does not ask.
        nbytes: size of the inputs, for the limit on waiting bytes; None means the sum over the arrays, which for
            object arrays counts pointers only.
        trace: what an observer wants to find again in the record of the run.
        queued_at: when it was submitted, in the time of ``deadline``.
        timeout_at: when it has waited too long, in the same time.
        rank: its place among the ranks of a queue: twice its level, and one more if it was put back.
        queue: where it waits, or None. Only changed under the scheduler's lock; whoever takes it out must finish it.
        taken: rows that were already cut off and given to a worker.
        assembly: what collects its parts, once it was cut.
        is_finished: whether ``done`` was called.
    """

    key: Hashable
    size: int
    inputs: "Arrays"
    outputs: tuple[str, ...]
    options: QueueOptions
    done: Callable[["Task", TaskResult], None] = field(repr=False)
    deadline: float | None = None
    priority: int = 0
    timeout_s: float = 0.0
    nbytes: int | None = None
    trace: Any = field(default=None, repr=False)
    queued_at: float = field(init=False, default=0.0)
    timeout_at: float = field(init=False, default=math.inf)
    rank: int = field(init=False, default=0)
    queue: "BatchQueue | None" = field(init=False, default=None, repr=False)
    taken: int = field(init=False, default=0)
    assembly: "Assembly | None" = field(init=False, default=None, repr=False)
    is_finished: bool = field(init=False, default=False)

    @property
    def expires_at(self) -> float:
        """When something must happen to it if it still waits; infinity if never."""
        return self.timeout_at if self.deadline is None else min(self.deadline, self.timeout_at)

    def finish(self, result: TaskResult) -> None:
        """Hand the result to the caller, and let go of the inputs, which a kept ticket would hold on to."""
        self.is_finished = True
        try:
            self.done(self, result)
        except BaseException:
            logger.exception("The callback of a finished task failed")
        self.inputs = NO_ARRAYS

    @classmethod
    def finish_all(
        cls, tasks: "Sequence[Task]", answers: "Sequence[Arrays]", record: "BatchRecord", started: float
    ) -> None:
        """Hand the outputs of one run to the callers of its tasks; must finish each of them and must not raise.

        Not called for tasks that were cut or whose answers are given in order.

        Args:
            tasks: those that ran together.
            answers: their outputs, in the same order.
            record: of the run.
            started: when it was begun, in the time of ``queued_at``.
        """
        for task, outputs in zip(tasks, answers, strict=True):
            task.finish(record.result(task, outputs, None, started))

    def refuse(self, error: Exception) -> None:
        """Tell the caller that the scheduler did not take the task, here with ``done``.

        Args:
            error: what ``BatchScheduler.submit`` would have raised.
        """
        self.finish(failure(error))
