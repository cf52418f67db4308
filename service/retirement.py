"""Versions that are out of service: each finishes what it took in a thread of its own, then its memory goes."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from service.model_version import ModelVersion

logger = logging.getLogger(__name__)


class Retirements:
    """What is being retired. May be used from any thread."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._threads: Final[dict[threading.Thread, ModelVersion]] = {}

    def __repr__(self) -> str:
        with self._lock:
            return f"<Retirements {list(self._threads.values())}>"

    def start(self, loaded: ModelVersion, closed: Callable[[ModelVersion], None]) -> None:
        """Close a version in the background.

        Args:
            loaded: no longer found by requests; those it took get all the time that they need.
            closed: called when its memory is free.
        """
        name = f"retire-{loaded.name}-{loaded.version}"
        thread = threading.Thread(target=self._close, args=(loaded, closed), name=name)
        with self._lock:
            thread.start()  # under the lock: who finds a thread here may join it, which needs one that was started
            self._threads[thread] = loaded

    def wait(self, model: str, timeout_s: float) -> bool:
        """Wait for the versions of a model; return whether they are gone."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            threads = [thread for thread, loaded in self._threads.items() if loaded.name == model]
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)

    def finish(self, timeout_s: float) -> None:
        """Return when everything is closed; what still waits for its turn after ``timeout_s`` seconds is failed."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            retiring = dict(self._threads)
        for thread, loaded in retiring.items():
            loaded.scheduler.drain(max(0.0, deadline - time.monotonic()))
            loaded.scheduler.stop()
            thread.join()

    def _close(self, loaded: ModelVersion, closed: Callable[[ModelVersion], None]) -> None:
        try:
            loaded.close(None)
        except Exception:
            logger.exception("closing %r failed", loaded)
        closed(loaded)
        with self._lock:
            del self._threads[threading.current_thread()]
