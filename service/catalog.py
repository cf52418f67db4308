"""The models of a server as requests see them: who serves a name, which versions exist, in which state."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from service.alias import split_alias
from service.errors import NotFoundError, UnavailableError
from service.load_plan import LoadPlan
from service.model_entry import UNLOADED, ModelEntry, State
from service.model_version import ModelVersion
from service.recognition import KnownRequests
from service.versions import parse_version


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A version as RepositoryIndex lists it; ``version`` and ``state`` are empty for a model that was never loaded."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Target:
    """What a model name and version mean.

    Attributes:
        loaded: the version that serves the request.
        signature: the signature that the name carries (``MODEL:SIGNATURE``), or None for a plain model name.
    """

    loaded: ModelVersion
    signature: str | None


class Catalog:
    """Finds the loaded version for a name. May be asked from any thread, and never waits for a load.

    What is in it is changed by ``service.repository.Repository``, which is a catalog.

    Attributes:
        known_requests: what was found for requests so far; for the data plane. After every change of what ``find``
            returns there is another, empty one, so what is found before a change never gets into it.
    """

    def __init__(self) -> None:
        """Create a catalog without models."""
        self._models: Final[dict[str, ModelEntry]] = {}
        self.known_requests: KnownRequests[Any] = KnownRequests()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {list(self._models.values())}>"

    def find(self, name: str, version_text: str) -> Target:
        """Return what serves a request for this name and version.

        Raises:
            InvalidArgumentError: the version is no number.
            NotFoundError: the model or the version does not exist, or no version of the model is ready.
            UnavailableError: the version exists and is not ready; or the model is being loaded for the first time, or
                what served before has made room for the load.
        """
        version = parse_version(version_text)
        model, signature, entry = self._resolve(name)
        if version is None:
            ready = entry.ready
            if not ready:
                raise _nothing_ready(name, entry)
            return Target(ready[-1], signature)
        for loaded in entry.ready:
            if loaded.version == version:
                return Target(loaded, signature)
        known = entry.version(version)
        if known is None:
            raise NotFoundError(f"Request for unknown model: '{name}' version {version} is not found")
        reason = "" if known.is_withdrawn else f" ({known})"
        raise UnavailableError(f"Request for unknown model: '{model}' version {version} is not at ready state{reason}")

    def _resolve(self, name: str) -> tuple[str, str | None, ModelEntry]:
        """Return the model that a name means: itself, else the longest prefix before a colon that is a model."""
        entry = self._models.get(name)
        if entry is not None:
            return name, None, entry
        alias = split_alias(name, self._models)
        if alias is not None:
            return *alias, self._models[alias[0]]
        raise NotFoundError(f"Request for unknown model: '{name}' is not found")

    def is_ready(self, name: str, version_text: str) -> bool:
        """Whether a request for this name and version would be served.

        Raises:
            InvalidArgumentError: the version is no number.
        """
        try:
            target = self.find(name, version_text)
            if target.signature is not None:
                target.loaded.find_alias(target.signature)
        except (NotFoundError, UnavailableError):
            return False
        return True

    def find_ready(self, name: str) -> list[Target]:
        """Return what a name means in each ready version of its model, ascending; an alias only where it can be run.

        Raises:
            NotFoundError: the model or the alias does not exist, or no version of the model is ready.
            UnavailableError: no version can run the alias's signature, and the latest has it; or as ``find`` has it.
        """
        _, signature, entry = self._resolve(name)
        versions = entry.ready
        if not versions:
            raise _nothing_ready(name, entry)
        targets = [Target(each, signature) for each in versions if signature is None or signature in each.signatures]
        if signature is not None and not targets:
            versions[-1].find_alias(signature)  # raises, and says why
        return targets

    def loaded_versions(self) -> list[ModelVersion]:
        """Return every version that may run something: the ready ones, and those that finish what they took."""
        entries = [entry for _, model in sorted(self._models.items()) for _, entry in model.versions()]
        return [entry.loaded for entry in entries if entry.loaded is not None]

    def ready_versions(self, name: str) -> list[ModelVersion]:
        """Return the ready versions of a model (or of the model of an alias), ascending; none when it is unknown."""
        try:
            return list(self._resolve(name)[2].ready)
        except NotFoundError:
            return []

    def model_names(self) -> list[str]:
        """Return the names of all models that were asked for, ready or not, ascending."""
        return sorted(self._models)

    def plan(self, name: str) -> LoadPlan | None:
        """Return what a model was loaded from, or None when it is not loaded."""
        entry = self._models.get(name)
        return None if entry is None else entry.plan

    def index(self) -> list[IndexEntry]:
        """Return every version that was ever asked for, by name and number."""
        return [listed for _, entry in sorted(self._models.items()) for listed in _listed(entry)]

    def every_model_is_ready(self) -> bool:
        """Whether each model that was asked for, and not unloaded since, has a ready version.

        A load at run time counts when it has ended, so that a further model leaves the server ready while it loads.
        """
        return all(entry.ready or not entry.is_required for entry in list(self._models.values()))

    def every_version_is_ready(self) -> bool:
        """Whether each version that was ever asked for is ready or was unloaded on purpose: Triton's rule."""
        return all(listed.state == State.READY.value or listed.reason == UNLOADED for listed in self.index())


def _listed(entry: ModelEntry) -> Iterator[IndexEntry]:
    if entry.problem:
        yield IndexEntry(entry.name, "", State.UNAVAILABLE.value, entry.problem)
    for number, version in entry.versions():
        yield IndexEntry(entry.name, str(number), version.state.value, version.reason)


def _nothing_ready(name: str, entry: ModelEntry) -> NotFoundError | UnavailableError:
    """Return the error for a model without a ready version: while one loads, a later try may work, and clients try."""
    if entry.is_replacing:
        return UnavailableError(
            f"model '{name}' is being reloaded: what served before was unloaded first, to make room; try again later"
        )
    is_loading = any(version.state is State.LOADING for _, version in entry.versions())
    error = UnavailableError if is_loading else NotFoundError
    return error(f"Request for unknown model: '{name}' has no available versions{_because(entry)}")


def _because(entry: ModelEntry) -> str:
    reasons = [entry.problem] if entry.problem else []
    reasons += [f"version {number} is {version}" for number, version in entry.versions() if not version.is_withdrawn]
    return f" ({'; '.join(reasons)})" if reasons else ""
