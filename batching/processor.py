"""Running a batch: merge, run, split, finish. No locks and no threads; any number of threads may use it at once."""

import logging
import time
from collections.abc import Callable, Hashable, Sequence

from batching.batch import Batch, batch_of
from batching.batch_record import BatchRecord
from batching.cut import Part
from batching.errors import DeadlineError, RowsMismatchError, RunError
from batching.merge import Arrays, check_rows, join_rows, split_rows, trim_outputs
from batching.task import Task, failure

logger = logging.getLogger(__name__)

Run = Callable[[Hashable, Arrays, tuple[str, ...]], Arrays]
"""Runs joined inputs once: (key, inputs, names of the wanted outputs) -> outputs by name."""


class Processor:
    """Runs batches and finishes their tasks, each exactly once, whatever the run function does.

    A joint run that fails, or whose outputs cannot be divided by rows, is repeated in smaller groups down to single
    tasks, so that only the guilty task gets an error. For n tasks that costs fewer than 2 n further runs; one bad task
    costs about 2 log2(n).
    """

    def __init__(
        self, run: Run, observe: Callable[[BatchRecord], None] | None, withdraw: Callable[[Task], object]
    ) -> None:
        """Create a processor.

        Args:
            run: runs joined inputs.
            observe: is told of every execution, before its tasks are finished.
            withdraw: takes what is left of a cut task out of its queue, once one of its parts has decided its fate.
        """
        self._run = run
        self._observe = observe
        self._withdraw = withdraw

    def process(self, batch: Batch) -> list[BatchRecord]:
        """Run the batch and finish all of its tasks; returns a record of each execution that it took."""
        started = time.monotonic()
        records: list[BatchRecord] = []
        pending = [batch]
        while pending:
            group = pending.pop()
            if isinstance(group.tasks[0], Part) and not group.by_rows:
                pending.extend(self._unjoined(group.tasks[0]))
                continue
            record = _record(group, is_retry=bool(records))
            records.append(record)
            outputs = self._execute(group, record)
            answers = _split(group, outputs, record) if record.error is None else None
            self._tell(record)
            if answers is not None:
                pending.extend(_answer(group, answers, record, started))
            else:
                pending.extend(_in_time(self._try_smaller(group, record, started), started))
        return records

    def _execute(self, group: Batch, record: BatchRecord) -> Arrays:
        """Join the inputs and run; what goes wrong is put into the record."""
        begin = joined = time.monotonic_ns()
        outputs: Arrays = {}
        try:
            wanted = group.outputs
            padding, fill = record.padded_size - group.size, group.options.pad_variable_length_inputs
            inputs = join_rows([task.inputs for task in group.tasks], padding, fill)
            joined = time.monotonic_ns()
            outputs = self._run(group.key, inputs, wanted)
            if missing := [name for name in wanted if name not in outputs]:
                record.error = RunError(f"the run did not answer the outputs {', '.join(missing)}")
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the tasks, not to the worker
            record.error = error
        record.compute_input_ns = joined - begin
        record.compute_infer_ns = time.monotonic_ns() - joined
        return outputs

    def _tell(self, record: BatchRecord) -> None:
        if self._observe is None:
            return
        try:
            self._observe(record)
        except BaseException:
            logger.exception("The observer of batches failed")

    def _try_smaller(self, group: Batch, record: BatchRecord, started: float) -> list[Batch]:
        """What is to be run instead of a group without answers, the last first; tasks that are lost get the error."""
        if record.mismatch is not None and group.options.retry_failed:
            return [single for task in reversed(group.tasks) for single in self._unjoined(task)]
        if group.may_be_retried:
            return group.divided()[::-1]
        self._fail(group, record, started)
        return []

    def _unjoined(self, task: Task) -> list[Batch]:
        """The task to be run in one piece and not by rows; nothing if it is a part of one that another has claimed."""
        if not isinstance(task, Part):
            return [batch_of([task], by_rows=False)]
        if not task.claim_whole():
            return []
        self._withdraw(task.whole)
        return [batch_of([task.whole], by_rows=False)]

    def _fail(self, group: Batch, record: BatchRecord, started: float) -> None:
        error = record.error or record.mismatch
        for task in group.tasks:
            if isinstance(task, Part):
                self._withdraw(task.whole)
            task.finish(record.result(task, {}, error, started))


def _record(group: Batch, *, is_retry: bool) -> BatchRecord:
    traces = [task.trace for task in group.tasks if task.trace is not None]
    # A task that was cut may have two parts in one group.
    distinct = tuple(dict.fromkeys(traces)) if traces else ()
    return BatchRecord(group.key, group.options, group.size, group.padded_size, len(group.tasks), is_retry, distinct)


def _split(group: Batch, outputs: Arrays, record: BatchRecord) -> Sequence[Arrays] | None:
    """Give each task its outputs, in order; None if that cannot be done, with the reason in the record."""
    begin = time.monotonic_ns()
    tasks = group.tasks
    is_untouched = len(tasks) == 1 and record.padded_size == group.size and not isinstance(tasks[0], Part)
    try:
        if group.by_rows:
            check_rows(outputs, record.padded_size)
            if not is_untouched:
                answers = split_rows(outputs, tasks)
                trim_outputs(answers, tasks, group.options.trimmed_outputs)
                return answers
        return _whole_outputs(outputs, tasks)
    except RowsMismatchError as mismatch:
        record.mismatch = mismatch
        return _whole_outputs(outputs, tasks) if is_untouched else None
    except BaseException as error:  # noqa: BLE001 - for example an output that is no array
        record.error = error
        return None
    finally:
        record.compute_output_ns = time.monotonic_ns() - begin


def _whole_outputs(outputs: Arrays, tasks: Sequence[Task]) -> list[Arrays]:
    return [{name: outputs[name] for name in task.outputs} for task in tasks]


def _answer(group: Batch, answers: Sequence[Arrays], record: BatchRecord, started: float) -> list[Batch]:
    """Finish the tasks; returns those that were cut and must be run whole, because their parts cannot be joined."""
    tasks = group.tasks
    if not group.options.preserve_ordering and Part not in {type(task) for task in tasks}:
        type(tasks[0]).finish_all(tasks, answers, record, started)
        return []
    again = []
    for task, outputs in zip(tasks, answers, strict=True):
        task.finish(record.result(task, outputs, None, started))
        if isinstance(task, Part) and task.claim_unjoinable():
            again.append(batch_of([task.whole], by_rows=False))
    return again


def _in_time(groups: list[Batch], started: float) -> list[Batch]:
    """The groups without the tasks whose deadline has passed meanwhile; those are finished."""
    now = time.monotonic()
    kept = []
    for group in groups:
        late = [task for task in group.tasks if task.deadline is not None and task.deadline <= now]
        for task in late:
            error = DeadlineError("the deadline passed before the task could be run again")
            task.finish(failure(error, int((started - task.queued_at) * 1e9)))
        if len(late) < len(group.tasks):
            kept.append(group.subset([task for task in group.tasks if task not in late]) if late else group)
    return kept
