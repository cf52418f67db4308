"""Running a task that is larger than a batch in parts."""

import threading
import time

from batching.merge import join_rows, slice_rows
from batching.task import Task, TaskResult, failure


class Part(Task):
    """Some rows of an oversize task, run like any task; its result goes to the assembly of the whole."""

    __slots__ = ("start", "whole")

    def __init__(self, whole: Task, start: int, size: int, assembly: "Assembly") -> None:
        super().__init__(
            key=whole.key,
            size=size,
            inputs=slice_rows(whole.inputs, start, start + size),
            outputs=whole.outputs,
            options=whole.options,
            done=assembly.collect,
            deadline=whole.deadline,
            trace=whole.trace,
        )
        self.queued_at = whole.queued_at
        self.assembly = assembly
        self.start = start
        self.whole = whole

    def claim_whole(self) -> bool:
        """Claim the right to finish the whole task before all parts are answered; true once."""
        return self.assembly is not None and self.assembly.close()

    def claim_unjoinable(self) -> bool:
        """Claim the right to run the whole task again after all parts were answered but do not fit; true once."""
        return self.assembly is not None and self.assembly.claim_unjoinable()


class Assembly:
    """Collects the results of the parts of one task and finishes the task once, with all rows or with one error.

    Parts may be run by several workers at once and end in any order.
    """

    __slots__ = ("_is_unjoinable", "_lock", "_open", "_results", "_rows_left", "_whole")

    def __init__(self, whole: Task) -> None:
        self._whole = whole
        self._lock = threading.Lock()
        self._open = True
        self._is_unjoinable = False
        self._rows_left = whole.size
        self._results: dict[int, TaskResult] = {}

    def close(self) -> bool:
        """Claim the right to finish the task; results of parts that come later are dropped.

        Returns:
            True for the first caller, who must then finish the task; False for all others.
        """
        with self._lock:
            was_open, self._open = self._open, False
            self._results = {}
        return was_open

    def collect(self, part: Task, result: TaskResult) -> None:
        """Take the result of one part: the callback of every part."""
        assert isinstance(part, Part)  # noqa: S101 - for the type checker: only parts have this callback
        if result.error is not None:
            if self.close():
                self._whole.finish(result)
            return
        with self._lock:
            if not self._open:
                return
            self._results[part.start] = result
            self._rows_left -= part.size
            results = [self._results[start] for start in sorted(self._results)] if self._rows_left == 0 else []
        if results and self.close():
            self._finish(results)

    def claim_unjoinable(self) -> bool:
        """Whether all parts were answered but their outputs could not be joined; true once, for who runs the whole."""
        with self._lock:
            was_unjoinable, self._is_unjoinable = self._is_unjoinable, False
        return was_unjoinable

    def _finish(self, results: list[TaskResult]) -> None:
        try:
            joined = _join(results, self._whole)
        except ValueError:  # their inner shapes differ, because they depend on what is in the rows
            self._is_unjoinable = True
        except BaseException as error:  # noqa: BLE001 - no memory, for example: it belongs to the caller
            self._whole.finish(failure(error))
        else:
            self._whole.finish(joined)


def cut(task: Task, size: int) -> Part:
    """Take the next ``size`` rows of a waiting task. Only under the scheduler's lock."""
    if task.assembly is None:
        task.assembly = Assembly(task)
    start = task.taken
    task.taken += size
    return Part(task, start, size, task.assembly)


def submitted(task: Task) -> Task:
    """The task as it was submitted: the whole for a part, else the task itself."""
    return task.whole if isinstance(task, Part) else task


def _join(results: list[TaskResult], whole: Task) -> TaskResult:
    """One result out of those of all parts, in order.

    The durations of the parts add up, as they are work done for this task. Where workers ran parts side by side the
    sum is more than the time that passed, so it is scaled down to it: waiting and computing never exceed the whole.
    """
    started = time.monotonic_ns()
    outputs = join_rows([result.outputs for result in results])
    compute_output_ns = time.monotonic_ns() - started + sum(result.compute_output_ns for result in results)
    compute_input_ns = sum(result.compute_input_ns for result in results)
    compute_infer_ns = sum(result.compute_infer_ns for result in results)
    queue_ns = min(result.queue_ns for result in results)
    passed_ns = max(0, int((time.monotonic() - whole.queued_at) * 1e9) - queue_ns)
    scale = min(1.0, passed_ns / max(1, compute_input_ns + compute_infer_ns + compute_output_ns))
    return TaskResult(
        outputs,
        queue_ns=queue_ns,
        compute_input_ns=int(compute_input_ns * scale),
        compute_infer_ns=int(compute_infer_ns * scale),
        compute_output_ns=int(compute_output_ns * scale),
        batch_size=max(result.batch_size for result in results),
    )
