"""One model of the server: the states of its versions, and which of them requests find."""

import threading
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Final

from service.load_plan import LoadPlan, VersionPlan
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
        is_replacing: whether the versions that served made room for those that a load is to bring.
    """

    def __init__(self, name: str, *, is_required: bool) -> None:
        self.name: Final = name
        self.ready: tuple[ModelVersion, ...] = ()
        self.plan: LoadPlan | None = None
        self.problem = ""
        self.is_required = is_required
        self.is_replacing = False
        self._versions: dict[int, VersionEntry] = {}
        self._served: dict[int, VersionPlan] = {}
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

    def serves(self, wish: VersionPlan) -> bool:
        """Whether a version is served that is made of what a load would bring."""
        served = self._served.get(wish.number)
        return served is not None and served.origin == wish.origin

    def begin_load(self, plan: LoadPlan) -> int:
        """Show the versions that a load is to bring as LOADING; those that serve go on.

        Returns:
            The ticket of this load.
        """
        with self._lock:
            self.problem = ""
            self._failures.pop(None, None)
            for number in plan.origins:
                if number not in self._served:
                    self._versions[number] = VersionEntry(State.LOADING)
            return self._withdrawals

    def show_loading(self, number: int) -> None:
        """Show a version as LOADING, unless one of its number serves."""
        with self._lock:
            if number not in self._served:
                self._versions[number] = VersionEntry(State.LOADING)

    def make_room(self, wishes: Iterable[VersionPlan], ticket: int) -> dict[ModelVersion, VersionPlan]:
        """Take out of service what a load replaces or leaves out, before it begins.

        Args:
            wishes: all that the load is to bring.
            ticket: of the load.

        Returns:
            What is to be closed, and how each was loaded.
        """
        with self._lock:
            if ticket != self._withdrawals:
                return {}
            kept = {wish.number for wish in wishes if self.serves(wish)}
            displaced = {each: self._served[each.version] for each in self.ready if each.version not in kept}
            self.is_replacing = True
            self._change(displaced)
            return displaced

    def is_overtaken(self, ticket: int) -> bool:
        """Whether the model was withdrawn since a load began."""
        return ticket != self._withdrawals

    def put_in_service(
        self, loaded: Mapping[ModelVersion, VersionPlan], ticket: int, *, kept: Container[int] | None = None
    ) -> list[ModelVersion]:
        """Let requests find versions from now on, all at one moment.

        Args:
            loaded: with how each was loaded.
            ticket: of their load.
            kept: which of the other versions go on, by number; by default all.

        Returns:
            What is to be closed: the versions of the same numbers that served before, and those that are not kept; all
            of ``loaded`` when the model was withdrawn since the load began.
        """
        with self._lock:
            if ticket != self._withdrawals:
                return list(loaded)
            numbers = {each.version for each in loaded}
            retired = [
                each
                for each in self.ready
                if each.version in numbers or (kept is not None and each.version not in kept)
            ]
            for number in numbers:
                self._failures.pop(number, None)
            return self._change(retired, loaded)

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
                self.is_required, self.is_replacing = True, False
                self.plan = plan if succeeded else self.plan
                return
            for number, entry in self._versions.items():
                if entry.state is State.LOADING:
                    self._versions[number] = VersionEntry(State.UNAVAILABLE, UNLOADED)

    def withdraw(self) -> list[ModelVersion]:
        """Take the whole model out of service, also what is being loaded; return the versions to be closed."""
        with self._lock:
            self._withdrawals += 1
            self.is_required = False
            self.plan = None
            self._failures.clear()
            self.is_replacing = False
            return self._change(self.ready)

    def _change(
        self, retired: Iterable[ModelVersion], loaded: Mapping[ModelVersion, VersionPlan] = MappingProxyType({})
    ) -> list[ModelVersion]:
        """Take versions out of service and bring others in, which requests see as one change; return the former."""
        retired = list(retired)
        for each in retired:
            self._versions[each.version] = VersionEntry(State.UNLOADING, "", each)
            del self._served[each.version]
        for each, made_from in loaded.items():
            self._versions[each.version] = VersionEntry(State.READY, "", each)
            self._served[each.version] = made_from
        staying = [each for each in self.ready if each not in retired]
        self.ready = tuple(sorted((*staying, *loaded), key=lambda each: each.version))
        return retired

    def closed(self, loaded: ModelVersion) -> None:
        """Note that a version that was taken out has finished what it took; another copy of it may serve meanwhile."""
        with self._lock:
            entry = self._versions.get(loaded.version)
            if entry is not None and entry.loaded is loaded:
                self._versions[loaded.version] = VersionEntry(State.UNAVAILABLE, UNLOADED)
