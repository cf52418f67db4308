"""Keeps the models of a server what lies on disk, by looking again and again."""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from service.errors import LoadError
from service.load_plan import LoadPlan, make_plan
from service.model_places import ModelPlaces
from service.repository import Repository

Sight = LoadPlan | str | None
"""What a look at a model's place finds: what a load would bring, or why it cannot be loaded, or None for nothing."""

_LONGEST_PAUSE: Final = 32
"""Polls from one try to the next of a load that fails and fails."""

logger = logging.getLogger(__name__)


@dataclass
class _Watch:
    """What is known of one model.

    Attributes:
        sight: what the last poll saw.
        is_settled: whether nothing is left to be done about it.
        polls_left: until it is tried again.
        pause: polls from the next failure to the try after it.
    """

    sight: Sight
    is_settled: bool
    polls_left: int
    pause: int = 1

    def is_due(self) -> bool:
        """Count a poll that saw the same; return whether it is to act on it."""
        self.polls_left -= 1
        return self.polls_left <= 0 and not self.is_settled

    def note(self, *, succeeded: bool) -> None:
        """Note how acting on it ended."""
        self.is_settled = succeeded
        self.polls_left = self.pause
        self.pause = min(2 * self.pause, _LONGEST_PAUSE)


class RepositoryPoller:
    """A thread that looks at the model places, and loads and unloads what changed there.

    A change counts once two polls in a row, and all for the quiet time, saw the same: files that are still being
    written, and directories that are gone for a moment while they are replaced, are left alone until then. What comes
    and was not written to for the quiet time was moved into place whole, and counts at once. More cannot be told by
    looking, so a copy that pauses for longer is loaded, fails, and is tried again: when its files change, else after 1,
    2, 4, ... polls. What served before goes on meanwhile; where it makes room for each load, only changed files are a
    reason to try again.

    A model is unloaded and forgotten when its directory, or the last version in it, is gone. A place that cannot be
    read, or is gone as a whole, says nothing about its models: they go on, too.
    """

    def __init__(
        self,
        repository: Repository,
        places: ModelPlaces,
        interval_s: float,
        quiet_s: float,
        *,
        stopping: threading.Event | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Prepare to look; ``start`` begins.

        Args:
            repository: what is loaded. From ``start`` on nothing else may load.
            places: where to look.
            interval_s: seconds from the end of a poll to the next.
            quiet_s: seconds for which a change must have been left alone.
            stopping: is waited on between the polls, and set to end them; a test brings one whose time it moves.
            now: tells the time by which the file system dates changes, in seconds.
        """
        self._repository: Final = repository
        self._places: Final = places
        self._interval_s: Final = interval_s
        self._quiet_s: Final = quiet_s
        self._now: Final = now
        self._stopping: Final = stopping or threading.Event()
        self._watches: dict[str, _Watch] = {}
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"<RepositoryPoller of {len(self._watches)} models, every {self._interval_s:g} s>"

    def start(self) -> None:
        """Begin; the first poll comes after the first interval."""
        self._thread = threading.Thread(target=self._run, name="model-poll")
        self._thread.start()

    def stop(self) -> None:
        """Begin no further load. Returns at once."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and wait for the load that runs."""
        self.stop()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval_s):
            try:
                self.poll()
            except Exception:
                logger.exception("unexpected error while polling; the next poll tries again")

    def poll(self) -> None:
        """Look once, and do what is due. Trouble with one model is logged and leaves the others alone."""
        names = sorted({*self._places.names(), *self._repository.model_names()})
        self._watches = {name: self._watches[name] for name in names if name in self._watches}
        for name in names:
            if self._stopping.is_set():
                return
            try:
                self._follow(name)
            except Exception:
                logger.exception("unexpected error while polling model '%s'", name)

    def _follow(self, name: str) -> None:
        sight = self._look(name)
        watch = self._watches.get(name)
        if watch is None or watch.sight != sight:
            is_loaded = sight is not None and sight == self._repository.plan(name)
            polls = max(1, math.ceil(self._quiet_s / self._interval_s))
            watch = self._watches[name] = _Watch(sight, is_loaded, 0 if self._was_moved_in(name, sight) else polls + 1)
        if watch.is_due():
            watch.note(succeeded=self._bring(name, sight))

    def _was_moved_in(self, name: str, sight: Sight) -> bool:
        """Whether all that was seen lay still for the quiet time, though it is new here."""
        if not isinstance(sight, LoadPlan):
            return False
        before = self._repository.plan(name)
        lacks_nothing = before is None or sight.lacks_nothing_of(before)
        return lacks_nothing and 0 < sight.last_change() < self._now() - self._quiet_s

    def _look(self, name: str) -> Sight:
        try:
            source = self._places.find(name)
            return None if source is None or source.is_empty else make_plan(source)
        except LoadError as error:
            return str(error)

    def _bring(self, name: str, sight: Sight) -> bool:
        """Make the repository what was seen; return whether nothing is left to be tried."""
        if sight is None:
            if self._repository.ready_versions(name):
                logger.info("model '%s' is no longer there, and is unloaded", name)
            self._repository.forget(name)
            return True
        if isinstance(sight, str):
            self._repository.refuse(name, sight)
            return True
        return not self._repository.apply(sight) or not self._repository.may_repeat(name)
