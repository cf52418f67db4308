"""Sees workers that hang. Nothing can stop a run; but a process that hangs can say so, and be replaced."""

import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from types import FrameType
from typing import Final

from service.model_version import ModelVersion

logger = logging.getLogger(__name__)


def stuck_runs(versions: Iterable[ModelVersion], timeout_s: float) -> list[str]:
    """Return what is wrong with the workers of some versions, a line each, in words that stay the same while it lasts.

    Args:
        versions: every loaded one.
        timeout_s: how long a run may take, in seconds; 0 means as long as it likes.
    """
    problems = []
    for loaded in versions:
        name = f"model '{loaded.name}' version {loaded.version}"
        stuck = loaded.scheduler.runs_longer_than(timeout_s) if timeout_s else 0
        if stuck:
            problems.append(f"{name}: {stuck} of its runs take longer than {timeout_s:g} s")
        if not loaded.scheduler.workers_are_alive:
            problems.append(f"{name}: a worker thread has died")
    return problems


class Watchdog:
    """Looks again and again from a thread of its own, and tells when something begins or ceases to be wrong."""

    def __init__(self, look: Callable[[], Sequence[str]], tell: Callable[[bool], None], period_s: float) -> None:
        """Start the thread.

        Args:
            look: returns what is wrong, a line each.
            tell: is told whether all is well, when that changes; called in the watchdog's thread.
            period_s: the time from one look to the next, in seconds.
        """
        self._look: Final = look
        self._tell: Final = tell
        self._period_s: Final = period_s
        self._known: frozenset[str] = frozenset()
        self._stopping: Final = threading.Event()
        self._thread: Final = threading.Thread(target=self._run, name="watchdog", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<Watchdog: {'; '.join(sorted(self._known)) or 'all is well'}>"

    def close(self) -> None:
        """Look no more; returns when the thread has ended."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._period_s):
            try:
                self._check()
            except Exception:
                logger.exception("the watchdog could not look")

    def _check(self) -> None:
        found = frozenset(self._look())
        news = found - self._known
        for problem in sorted(news):
            logger.error("not live: %s", problem)
        if news:
            _log_stacks()
        was_well, self._known = not self._known, found
        if was_well != (not found):
            if not found:
                logger.warning("live again: what hung has ended")
            self._tell(not found)


def _log_stacks() -> None:
    """Log where every thread is, a line each, the innermost call first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    for ident, frame in sys._current_frames().items():  # noqa: SLF001 - public by its documentation
        logger.error("thread %r is in %s", names.get(ident, ident), _stack(frame))


def _stack(frame: FrameType) -> str:
    calls = traceback.StackSummary.extract(traceback.walk_stack(frame), lookup_lines=False)
    return " < ".join(f"{call.name} ({call.filename}:{call.lineno})" for call in calls)
