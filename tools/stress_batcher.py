"""Let many threads submit, cancel and expire tasks of many kinds, with faults injected, and check every answer.

    python tools/stress_batcher.py --tasks 1000000 --threads 16 --switch-interval 1e-6

Of every hundred tasks about one cannot be computed, one is cancelled, one has a very short deadline and one lies about
its shape, so that joining fails. One joint run in fifty raises before it starts, one lacks an output, and for some keys
one answers too few rows. Callbacks and the observer raise now and then. Exit status 0 means that every task was
finished exactly once and every answer was right.
"""

import argparse
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from batching import (
    BatchRecord,
    BatchScheduler,
    DeadlineError,
    DroppedError,
    Joining,
    QueueFullError,
    QueueOptions,
    QueuePolicy,
    Task,
    TaskCancelledError,
    TaskResult,
    TimeoutAction,
)
from batching.burst import Burst

Arrays = Mapping[str, np.ndarray]

_WINDOW = 128  # unfinished tasks per thread
_DELAYS = QueuePolicy(timeout_action=TimeoutAction.DELAY, default_timeout_s=0.001)
_LANES = (
    QueueOptions(max_batch_size=32),
    QueueOptions(max_batch_size=8, max_queue_delay_s=0.002, preferred_batch_size=(4,)),
    QueueOptions(max_batch_size=16, allowed_batch_sizes=(1, 4, 16), max_queue_size=200),
    QueueOptions(max_batch_size=32, priority_levels=3, default_priority_level=2, default_queue_policy=_DELAYS),
    QueueOptions(max_batch_size=32, preserve_ordering=True, weight=2.0),
    QueueOptions(max_batch_size=4, joining=Joining.ALONE, retry_failed=False),
    QueueOptions(max_batch_size=1, joining=Joining.SHARE),
)
_KEYS = 20  # spread over the lanes
_KEYS_NOT_BY_ROWS = {(3, 3), (10, 3), (17, 3)}  # one lane, whose outputs may have another number of rows


class FaultError(Exception):
    """What the faulty parts raise."""


class Model:
    """The run function: doubles its rows; raises and answers nonsense as told by chance and by poisoned rows.

    Chance strikes joint runs only, since a single run decides a task's answer. A row is (task, row, poison).
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - chance, not secrecy

    def __call__(self, key: Hashable, inputs: Arrays, outputs: tuple[str, ...]) -> Arrays:
        """Run once."""
        if "x" not in inputs:
            return dict.fromkeys(outputs, np.arange(3))
        rows = inputs["x"]
        chance = self._random.random() if len(rows) and rows[0, 0] != rows[-1, 0] else 1.0
        if chance < 0.02:
            raise FaultError("before the run")
        if (rows[:, 2] > 0).any():
            raise FaultError("poison")
        answers = dict.fromkeys(outputs, rows * 2)
        if chance < 0.04:
            answers.popitem()
        elif chance < 0.06 and key in _KEYS_NOT_BY_ROWS:
            answers = {name: array[:, 0].sum() for name, array in answers.items()}
        return answers


class _Stressed(Task):
    """A task that tells its submitter when it is refused."""

    __slots__ = ("submitter",)
    submitter: "Submitter"

    def refuse(self, error: Exception) -> None:
        """Count it."""
        if not isinstance(error, QueueFullError):
            self.submitter.wrong.append(f"refused for {error!r}")
        self.submitter.refused()


class Submitter:
    """One thread that submits tasks of all kinds and checks what comes back; every other one submits in bursts."""

    def __init__(self, scheduler: BatchScheduler, number: int, tasks: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._scheduler = scheduler
        self._tasks = tasks
        self._number = number
        self._random = random.Random(number)  # noqa: S311 - chance, not secrecy
        self._slots = threading.Semaphore(_WINDOW)
        self._lock = threading.Lock()
        self._last_in_order = -1

    def run(self) -> None:
        """Submit all tasks and wait until they are finished."""
        submit = self._submit_burst if self._number % 2 else self._submit
        index = 0
        while index < self._tasks:
            size = min(self._random.randrange(1, 20), self._tasks - index)
            tasks = [self._make(each) for each in range(index, index + size)]
            submit(tasks)
            for task in tasks:
                if self._random.random() < 0.01:
                    self._scheduler.cancel(task)
            index += size
        for _ in range(_WINDOW):
            self._slots.acquire()

    def _submit(self, tasks: Sequence[_Stressed]) -> None:
        for task in tasks:
            self._slots.acquire()
            try:
                self._scheduler.submit(task)
            except QueueFullError as error:
                task.refuse(error)

    def _submit_burst(self, tasks: Sequence[_Stressed]) -> None:
        burst = Burst()
        for task in tasks:
            self._slots.acquire()
            burst.submit(self._scheduler, task)
        burst.run()

    def refused(self) -> None:
        """Count a task that was not taken."""
        with self._lock:
            self.outcomes["refused"] += 1
        self._slots.release()

    def _make(self, index: int) -> _Stressed:
        key = self._random.randrange(_KEYS)
        options = _LANES[key % len(_LANES)]
        chance = self._random.random()
        size = 0 if chance < 0.005 else self._random.choice((1, 1, 1, 2, 3, 40 if chance > 0.99 else 5))
        rows = np.zeros((size, 4 if 0.02 < chance < 0.03 else 3), np.int64)
        rows[:, 0] = self._number * self._tasks + index
        rows[:, 1] = np.arange(size)
        if size and chance > 0.98:
            rows[-1, 2] = 1
        deadline = time.monotonic() + self._random.random() * 0.01 if 0.5 < chance < 0.51 else None
        inputs = {} if options.joining is Joining.SHARE else {"x": rows}
        outputs = self._random.choice((("y",), ("z", "y")))
        done = _Check(self, inputs.get("x"), index)
        task = _Stressed((key, 3), size, inputs, outputs, options, done, deadline, self._random.randrange(5))
        task.submitter = self
        return task

    def finished(self, task: Task, result: TaskResult, rows: np.ndarray | None, index: int) -> None:
        """Check the answer to one task."""
        outcome = "answered" if result.error is None else type(result.error).__name__
        if not _is_right(task, result, rows):
            self.wrong.append(f"task {index} of {self._number}: {result}")
        with self._lock:
            self.outcomes[outcome] += 1
            if task.options.preserve_ordering and not isinstance(result.error, DroppedError):
                if index < self._last_in_order:
                    self.wrong.append(f"task {index} of {self._number} was answered after {self._last_in_order}")
                self._last_in_order = index
        self._slots.release()


class _Check:
    """The callback of one task; complains if it is called twice, and raises now and then."""

    __slots__ = ("_index", "_is_called", "_owner", "_rows")

    def __init__(self, owner: Submitter, rows: np.ndarray | None, index: int) -> None:
        self._owner = owner
        self._rows = rows
        self._index = index
        self._is_called = False

    def __call__(self, task: Task, result: TaskResult) -> None:
        if self._is_called:
            self._owner.wrong.append(f"task {self._index} was finished twice")
        self._is_called = True
        self._owner.finished(task, result, self._rows, self._index)
        if self._index % 1000 == 999:
            raise FaultError("in a callback")


def _is_right(task: Task, result: TaskResult, rows: np.ndarray | None) -> bool:
    if isinstance(result.error, TaskCancelledError):
        return True
    if isinstance(result.error, DeadlineError):
        return task.deadline is not None and task.deadline <= time.monotonic()
    if rows is None:
        return result.error is None and all(array.tolist() == [0, 1, 2] for array in result.outputs.values())
    if (rows[:, 2] > 0).any():
        return isinstance(result.error, FaultError)
    return tuple(result.outputs) == task.outputs and all(
        np.array_equal(array, rows * 2) for array in result.outputs.values()
    )


class _Observer:
    def __init__(self) -> None:
        self.records = 0

    def __call__(self, record: BatchRecord) -> None:
        """Count, and raise now and then."""
        self.records += 1
        if record.size == 3 and record.is_retry:
            raise FaultError("in the observer")


def stress(tasks: int, threads: int, workers: int) -> tuple[Counter[str], list[str]]:
    """Run the load; returns how many tasks ended in which way, and a line for everything that was wrong."""
    observer = _Observer()
    scheduler = BatchScheduler(Model(seed=1), workers=workers, name="stress", observe=observer)
    submitters = [Submitter(scheduler, number, tasks // threads) for number in range(threads)]
    running = [threading.Thread(target=submitter.run) for submitter in submitters]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    wrong = [line for submitter in submitters for line in submitter.wrong]
    if not scheduler.drain(timeout_s=10.0):
        wrong.append(f"something is left: {scheduler!r}")
    scheduler.stop()
    outcomes = sum((submitter.outcomes for submitter in submitters), Counter[str]())
    if outcomes.total() != threads * (tasks // threads):
        wrong.append(f"{outcomes.total()} outcomes for {tasks} tasks")
    return outcomes, wrong


def main() -> int:
    """Run as the command line says; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--switch-interval", type=float, default=sys.getswitchinterval(), help="seconds")
    args = parser.parse_args()
    sys.setswitchinterval(args.switch_interval)
    logging.getLogger("batching").setLevel(logging.CRITICAL)  # the injected faults would be logged by the thousand
    began = time.monotonic()
    outcomes, wrong = stress(args.tasks, args.threads, args.workers)
    sys.stdout.write(f"{dict(outcomes)} in {time.monotonic() - began:.0f} s\n")
    sys.stdout.writelines(f"{line}\n" for line in wrong[:20])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
