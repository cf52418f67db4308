"""Giving answers in the order in which the tasks came, although they become ready in another."""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable

from batching.errors import DroppedError
from batching.task import Task, TaskResult

logger = logging.getLogger(__name__)


class ResponseOrder:
    """Holds answers back until all tasks that were admitted earlier are answered.

    A task that is dropped has no answer: its caller is told at once, and nobody waits for it. One thread at a time
    gives answers; others leave theirs to it. Thread-safe. Source of the behaviour: Triton, ModelDynamicBatching,
    preserve_ordering.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_releasing = False
        self._callbacks: OrderedDict[Task, Callable[[Task, TaskResult], None]] = OrderedDict()
        self._results: dict[Task, TaskResult] = {}

    def admit(self, task: Task) -> None:
        """Put the task behind all that were admitted before; its callback will be called in that order."""
        with self._lock:
            self._callbacks[task] = task.done
        task.done = self._finish

    def _finish(self, task: Task, result: TaskResult) -> None:
        with self._lock:
            if isinstance(result.error, DroppedError):
                done = self._callbacks.pop(task)
            else:
                done = None
                self._results[task] = result
        try:
            if done is not None:
                done(task, result)
        finally:
            self._release_all()

    def _release_all(self) -> None:
        with self._lock:
            if self._is_releasing:
                return
            self._is_releasing = True
        while (released := self._release()) is not None:
            done, first, first_result = released
            try:
                done(first, first_result)
            except BaseException:
                logger.exception("The callback of a finished task failed")

    def _release(self) -> tuple[Callable[[Task, TaskResult], None], Task, TaskResult] | None:
        """Take the first task out if it has its answer; else this thread releases no more."""
        with self._lock:
            first = next(iter(self._callbacks), None)
            result = None if first is None else self._results.pop(first, None)
            if first is None or result is None:
                self._is_releasing = False
                return None
            return self._callbacks.pop(first), first, result
