"""One model of the server: the states of its versions, and which of them requests find."""

import threading
from collections.abc import Container, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from service.load_plan import LoadPlan, Origin
from service.model_version import ModelVersion

UNLOADED: Final = "unloaded"
"""The reason of a version that was taken out of service on purpose."""


class State(Enum):
    """Where a version is in its life; it only moves down this list, or ends in UNAVAILABLE. A load begins anew."""

    LOADING = "LOADING"
    """To be read, or being read and warmed up; not found by requests."""
    READY = "READY"
    """Found by requests, also while another copy of it is being loaded."""
    UNLOADING = "UNLOADING"
    """No longer found by requests; those it took are being finished."""
    UNAVAILABLE = "UNAVAILABLE"
    """Failed to load, or unloaded; the reason says which."""


@dataclass(frozen=True, slots=True)
class VersionEntry:
    """One version of a model: its state, the reason for it, and what is loaded while it is READY or UNLOADING."""

    state: State
    reason: str = ""
    loaded: ModelVersion | None = None
    origin: Origin | None = None

    def __str__(self) -> str:
        return f"{self.state.value}: {self.reason}" if self.reason else self.state.value

    @property
    def is_withdrawn(self) -> bool:
        """Whether it is out of service on purpose, which needs no explanation."""
        return self.state is State.UNLOADING or self.reason == UNLOADED


class ModelEntry:
    """The versions of one model.

    ``ready`` is what requests look at: a tuple that is only ever replaced as a whole, so that they need no lock and a
    switch from one version to the next is one assignment. All other changes happen under the lock. One thread at a
    time loads; any thread may withdraw, and what it withdraws stays withdrawn: a load that had begun before brings
    nothing back.

    Attributes:
        ready: the versions that requests find, in ascending order of number.
        plan: what the last load that succeeded as a whole was asked for; None before it and after an unload.
        problem: why the model has no versions at all, or "".
        is_required: whether the server is ready only with a version of this model.
    """

    def __init__(self, name: str, *, is_required: bool) -> None:
        self.name: Final = name
        self.ready: tuple[ModelVersion, ...] = ()
        self.plan: LoadPlan | None = None
        self.problem = ""
        self.is_required = is_required
        self._versions: dict[int, VersionEntry] = {}
        self._withdrawals = 0
        self._failures: dict[int | None, str] = {}
        self._lock: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<ModelEntry {self.name}: {', '.join(f'{number} {entry}' for number, entry in self.versions())}>"

    def versions(self) -> list[tuple[int, VersionEntry]]:
        """Return every version that was ever asked for, ascending."""
        with self._lock:
            return sorted(self._versions.items())

    def version(self, number: int) -> VersionEntry | None:
        """Return a version, or None when it was never asked for."""
        return self._versions.get(number)

    def begin_load(self, plan: LoadPlan) -> int:
        """Show the versions that a load is to bring as LOADING; those that serve go on.

        Returns:
            The ticket of this load.
        """
        with self._lock:
            self.problem = ""
            self._failures.pop(None, None)
            serving = {loaded.version for loaded in self.ready}
            for number in plan.origins:
                if number not in serving:
                    self._versions[number] = VersionEntry(State.LOADING)
            return self._withdrawals

    def is_overtaken(self, ticket: int) -> bool:
        """Whether the model was withdrawn since a load began."""
        return ticket != self._withdrawals

    def put_in_service(self, loaded: ModelVersion, origin: Origin, ticket: int) -> ModelVersion | None:
        """Let requests find a version from now on.

        Returns:
            What is to be closed: the version of the same number that served before, if there was one; ``loaded`` itself
            when the model was withdrawn since the load began.
        """
        with self._lock:
            if ticket != self._withdrawals:
                return loaded
            replaced = next((each for each in self.ready if each.version == loaded.version), None)
            others = [each for each in self.ready if each is not replaced]
            self._versions[loaded.version] = VersionEntry(State.READY, "", loaded, origin)
            self._failures.pop(loaded.version, None)
            self.ready = tuple(sorted((*others, loaded), key=lambda each: each.version))
            return replaced

    def fail(self, number: int, reason: str) -> bool:
        """Note that a load failed; return whether an earlier copy of the version still serves."""
        with self._lock:
            serves = any(each.version == number for each in self.ready)
            if not serves:
                self._versions[number] = VersionEntry(State.UNAVAILABLE, reason)
            return serves

    def is_news(self, number: int | None, reason: str) -> bool:
        """Note why a version, or the model as such (None), failed; return whether it is another reason than before."""
        with self._lock:
            is_news = self._failures.get(number) != reason
            self._failures[number] = reason
            return is_news

    def finish_load(self, plan: LoadPlan, ticket: int, *, succeeded: bool) -> None:
        """Note that a load has ended; one that was overtaken by a withdrawal leaves nothing behind."""
        with self._lock:
            if ticket == self._withdrawals:
                self.is_required = True
                self.plan = plan if succeeded else self.plan
                return
            for number, entry in self._versions.items():
                if entry.state is State.LOADING:
                    self._versions[number] = VersionEntry(State.UNAVAILABLE, UNLOADED)

    def retire_all_but(self, kept: Container[int]) -> list[ModelVersion]:
        """Take the other versions out of service; return them, to be closed."""
        with self._lock:
            return self._take_out([loaded for loaded in self.ready if loaded.version not in kept])

    def withdraw(self) -> list[ModelVersion]:
        """Take the whole model out of service, also what is being loaded; return the versions to be closed."""
        with self._lock:
            self._withdrawals += 1
            self.is_required = False
            self.plan = None
            self._failures.clear()
            return self._take_out(self.ready)

    def _take_out(self, retired: Iterable[ModelVersion]) -> list[ModelVersion]:
        retired = list(retired)
        self.ready = tuple(each for each in self.ready if each not in retired)
        for loaded in retired:
            self._versions[loaded.version] = VersionEntry(State.UNLOADING, "", loaded)
        return retired

    def closed(self, loaded: ModelVersion) -> None:
        """Note that a version that was taken out has finished what it took; another copy of it may serve meanwhile."""
        with self._lock:
            entry = self._versions.get(loaded.version)
            if entry is not None and entry.loaded is loaded:
                self._versions[loaded.version] = VersionEntry(State.UNAVAILABLE, UNLOADED)
