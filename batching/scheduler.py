"""The threads that run batches, and the lock around what waits for them."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from batching.backlog import Backlog
from batching.batch import Batch
from batching.batch_record import BatchRecord
from batching.counts import Counts
from batching.errors import BatchingError, StoppedError, TaskCancelledError
from batching.processor import Processor, Run
from batching.runs import Runs
from batching.sleepers import Sleepers
from batching.task import Task, failure

logger = logging.getLogger(__name__)

Drop = tuple[Task, BatchingError]
_Work = tuple[list[Drop], Batch | None]
"""Tasks to be dropped and a batch to be run."""


class BatchScheduler:
    """Takes tasks from any thread, joins them to batches and runs these on a fixed number of workers.

    ``submit`` never waits. A free worker takes what is there at once, unless the options ask for a delay; while all
    workers are busy tasks collect. Every task that was taken is finished exactly once: answered, failed, cancelled,
    expired at the time asked (also while all workers are busy) or stopped.

    Threads: one more than ``workers``, all alike. At most ``workers`` of them run batches, so at least one is free to
    keep the time. They sleep until something is due; an idle scheduler uses no CPU. All decisions are the Backlog's,
    taken under the lock; merging, running, splitting and callbacks happen outside it.

    To wake a thread costs more than a quick batch takes. So who submits may lend a hand (``help``), and what is ready
    while a quick batch runs is left to the thread that runs it.

    Thread-safe. Callbacks may call any method except ``drain``, which would wait for the callback.
    """

    def __init__(
        self,
        run: Run,
        workers: int = 1,
        name: str = "batch",
        observe: Callable[[BatchRecord], None] | None = None,
    ) -> None:
        """Start the threads.

        Args:
            run: runs joined inputs; called from up to ``workers`` threads at once.
            workers: most batches that run at the same time, at least 1.
            name: what the threads are named after.
            observe: called after every execution, before its tasks are finished.

        Raises:
            ValueError: fewer than one worker.
        """
        if workers < 1:
            raise ValueError(f"workers must be at least 1, not {workers}")
        self._name = name
        self._workers = workers
        self._processor = Processor(run, observe, self._withdraw)
        self._backlog = Backlog()
        self._lock = threading.Lock()
        self._sleepers = Sleepers(self._lock)
        self._runs = Runs(workers)
        self._dropping = 0  # tasks that were taken out of the backlog but are not yet finished
        self._draining = False
        self._stopped = False
        self._drained = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True) for index in range(workers + 1)
        ]
        for thread in self._threads:
            thread.start()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else "draining" if self._draining else "running"
        counts = self.counts()
        return (
            f"<BatchScheduler {self._name!r} {state}: "
            f"{counts.queued_tasks} tasks wait, {counts.running_tasks} run in {counts.running_batches} batches>"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def submit(self, task: Task, *, wake: bool = True) -> None:
        """Take a task; its ``done`` will be called exactly once, unless this raises.

        Args:
            task: belongs to the scheduler from now on.
            wake: whether a worker is to look at it; else the caller must call ``help`` soon.

        Raises:
            QueueFullError: the queue of the task's signature is full.
            OversizeError: the task is larger than a batch and its options say that such tasks are refused.
            StoppedError: the scheduler drains or has stopped.
        """
        with self._lock:
            if self._add(task, time.monotonic()) and wake:
                self._wake_if_needed()

    def submit_all(self, tasks: Sequence[Task]) -> None:
        """Take tasks that came together, run in the calling thread what is quick, and leave the rest to the workers.

        Where nothing else waits and all of it should be over soon, no task goes through a queue.

        Args:
            tasks: at least one. Those that are not taken are told so by ``Task.refuse``.
        """
        refused: list[tuple[Task, Exception]] = []
        with self._lock:
            now = time.monotonic()
            are_formed = self._runs.has_room and not self._draining and self._backlog.form(tasks, now)
            for task in () if are_formed else tasks:
                try:
                    self._add(task, now)
                except Exception as error:  # noqa: BLE001 - it is told to the caller
                    refused.append((task, error))
        for task, reason in refused:
            try:
                task.refuse(reason)
            except Exception:
                logger.exception("A task was refused, and to tell its caller failed")
        self.help()

    def help(self) -> None:
        """Run quick batches in the calling thread as long as some are ready, and leave the rest to the workers."""
        while (work := self._next_quick()) is not None:
            self._do(work)

    def cancel(self, task: Task) -> bool:
        """Give a task up.

        Returns:
            True if the task waited: it is finished with TaskCancelledError before this returns. False if it runs or
            is finished: its ``done`` gets, or got, another result.
        """
        with self._lock:
            if not self._backlog.remove(task, time.monotonic()):
                return False
            self._dropping += 1
        self._drop([(task, TaskCancelledError("the caller cancelled the request"))])
        return True

    def drain(self, timeout_s: float | None = None) -> bool:
        """Take nothing more, and wait until all that was taken is finished; no batch waits for company any more.

        Args:
            timeout_s: how long to wait at most, in seconds; None for as long as it takes.

        Returns:
            Whether everything is finished. If not, it goes on; ``stop`` ends it.
        """
        with self._lock:
            self._draining = True
            self._backlog.expect_no_more(time.monotonic())
            self._wake_if_needed()
            self._check_drained()
        return self._drained.wait(timeout_s)

    def stop(self) -> None:
        """Take nothing more, fail what waits with StoppedError, wait for the batches that run and for the threads.

        Called from a callback it does not wait, because the callback's own thread cannot end before.
        """
        with self._lock:
            self._draining = self._stopped = True
            waiting = self._backlog.clear(time.monotonic())
            self._dropping += len(waiting)
            self._sleepers.wake_all()
            self._check_drained()
            may_wait = not self._runs.has_thread(threading.get_ident())
        self._drop([(task, StoppedError("the server stopped before the request's turn came")) for task in waiting])
        if may_wait and threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()
            self._drained.wait()  # for those who help

    def counts(self) -> Counts:
        """What waits and what runs at this moment."""
        with self._lock:
            running = self._runs.tasks_by_options()
            return Counts(
                queued_tasks=self._backlog.num_tasks,
                queued_rows=self._backlog.size,
                running_batches=len(self._runs),
                running_tasks=running.total(),
                running=running,
                lanes={lane.options: lane.counts() for lane in self._backlog.lanes},
            )

    def runs_longer_than(self, seconds: float) -> int:
        """How many batches run for longer than that now."""
        with self._lock:
            return self._runs.begun_before(time.monotonic() - seconds)

    @property
    def workers_are_alive(self) -> bool:
        """Whether every thread is there that has not been told to end."""
        return self._stopped or all(thread.is_alive() for thread in self._threads)

    # The threads. --------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (work := self._next()) is not None:
            self._do(work)
            del work  # do not hold on to tensors while waiting

    def _next(self) -> _Work | None:
        """Wait for something to do. None when it is time to end."""
        with self._lock:  # critical section: decide here, act outside
            while (work := self._decide()) is None:
                if self._stopped:
                    return None
                self._sleepers.sleep(self._next_due(busy=len(self._runs)))
            return work

    def _next_quick(self) -> _Work | None:
        """What there is to do for a helper; where there is something for others, one of them is woken."""
        with self._lock:
            work = self._decide(only_quick=True) if self._backlog.num_tasks else None
            if work is None:
                self._wake_if_needed()
            return work

    def _decide(self, *, only_quick: bool = False) -> _Work | None:
        """What the calling thread is to do now; None for nothing."""
        now = time.monotonic()
        drops = self._backlog.expire(now)
        batch = self._backlog.take(now, only_quick=only_quick) if self._runs.has_room else None
        if batch is not None:
            is_quick = self._backlog.lane(batch.options).is_quick
            self._runs.begin(batch, now, threading.get_ident(), is_quick=is_quick)
        elif not drops:
            return None
        self._dropping += len(drops)
        self._wake_if_needed()
        return drops, batch

    def _add(self, task: Task, now: float) -> bool:
        """Let a task wait; returns whether something may be due earlier than before. Raises as ``submit`` does."""
        if self._draining:
            raise StoppedError("the server is shutting down and takes nothing more")
        is_news = self._backlog.add(task, now)
        if task.timeout_at < math.inf and self._starts_at_once(now):
            self._backlog.forget_timeout(task)
        return is_news

    def _do(self, work: _Work) -> None:
        drops, batch = work
        self._drop(drops)
        if batch is not None:
            self._run_batch(batch)

    def _wake_if_needed(self) -> None:
        if self._backlog.num_tasks:  # else nothing is due
            self._sleepers.wake_for(self._next_due(busy=len(self._runs) + self._sleepers.num_waking))

    def _next_due(self, busy: int) -> float:
        """When there is something to do for a thread, given the number of those that run batches or are about to."""
        expiry = self._backlog.next_expiry()
        if busy >= self._workers:
            return expiry
        return min(expiry, max(self._backlog.next_ready_at(), self._runs.relief_at()))

    def _starts_at_once(self, now: float) -> bool:
        """Whether the only task that waits is about to be run: the time to wake a worker is no time in the queue."""
        is_alone = self._backlog.num_tasks == 1 and not self._sleepers.num_waking
        return is_alone and self._runs.has_room and self._backlog.next_ready_at() <= now

    def _run_batch(self, batch: Batch) -> None:
        records: Sequence[BatchRecord] = ()
        try:
            records = self._processor.process(batch)
        except BaseException as error:
            # A worker must outlive even a defect of the batcher itself, and must leave no caller waiting.
            logger.exception("Running a batch failed inside the batcher")
            for task in batch.tasks:
                if not task.is_finished:
                    task.finish(failure(error))
        with self._lock:
            self._runs.end(batch)
            for record in records:
                self._account(record)
            if records:
                self._backlog.lane(batch.options).ran(batch, records[0], time.monotonic())
            self._check_drained()

    def _account(self, record: BatchRecord) -> None:
        lane = self._backlog.lane(record.options)
        lane.tally.ran(record)
        if record.mismatch is not None and lane.joins:
            lane.stop_joining(str(record.mismatch), time.monotonic())
            logger.warning("Requests of %r run alone from now on: %s", record.key, record.mismatch)

    def _drop(self, drops: Sequence[Drop]) -> None:
        """Finish tasks that were taken out of the backlog and counted in ``_dropping``."""
        if not drops:
            return
        for task, error in drops:
            if task.assembly is None or task.assembly.close():
                task.finish(failure(error, int((time.monotonic() - task.queued_at) * 1e9)))
        with self._lock:
            for task, error in drops:
                self._backlog.lane(task.options).tally.drops[type(error)] += 1
            self._dropping -= len(drops)
            self._check_drained()

    def _withdraw(self, task: Task) -> None:
        with self._lock:
            self._backlog.remove(task, time.monotonic())

    def _check_drained(self) -> None:
        if self._draining and not (len(self._runs) or self._dropping or self._backlog.num_tasks):
            self._drained.set()
