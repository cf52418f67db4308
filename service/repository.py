"""The models of a server: which versions exist, in which state, and who serves a name."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.alias import split_alias
from service.errors import LoadError, NotFoundError, UnavailableError
from service.layouts import ModelSource
from service.load_plan import LoadPlan, make_plan
from service.model_entry import UNLOADED, ModelEntry, State
from service.model_version import ModelVersion
from service.retirement import Retirements
from service.versions import parse_version

Load = Callable[[str, int, Path, ModelConfig], ModelVersion]
"""Loads one version: model, number, version directory, configuration. Raises LoadError."""

logger = logging.getLogger(__name__)


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


class Repository:
    """Finds the loaded version for a name, and changes what is loaded.

    Lookups may come from any thread and never wait for a load. Loads come from one thread at a time. Unloads may come
    from any thread and return at once.
    """

    def __init__(
        self,
        load: Load,
        *,
        on_change: Callable[[str], None] = lambda _name: None,
        settle_s: float = 30.0,
    ) -> None:
        """Create a repository without models.

        Args:
            load: loads one version.
            on_change: called with a model's name when it may have become ready or unready, from any thread.
            settle_s: how long a load waits, in seconds, for the memory of versions of the same model that were taken
                out of service before.
        """
        self._load: Final = load
        self._on_change: Final = on_change
        self._settle_s: Final = settle_s
        self._models: Final[dict[str, ModelEntry]] = {}
        self._added: Final[dict[str, LoadPlan]] = {}
        self._retirements: Final = Retirements()

    def __repr__(self) -> str:
        return f"<Repository {list(self._models.values())}>"

    # Loading. --------------------------------------------------------------------------------------------------------

    def add(self, source: ModelSource) -> None:
        """Make a model known and read its configuration; requests are then told that it is not ready, not unknown.

        Raises:
            LoadError: there is a model of this name already.
        """
        if source.name in self._models:
            raise LoadError(f"two models are called '{source.name}'; name one of them with --model NAME=PATH")
        entry = ModelEntry(source.name, is_required=True)
        try:
            plan = make_plan(source)
            entry.begin_load(plan)
            self._added[source.name] = plan
        except LoadError as error:
            entry.problem = str(error)
        self._models[source.name] = entry

    def configurations(self) -> dict[str, ModelConfig]:
        """Return the configuration of each added model as read; that of a model whose file is wrong is empty."""
        return {name: self._added[name].config if name in self._added else ModelConfig() for name in self._models}

    def load(self, name: str) -> list[str]:
        """Load an added model: the versions that its configuration asks for, lowest first.

        Returns:
            What went wrong, a line each; a version that failed leaves the others served.
        """
        plan = self._added.get(name)
        if plan is None:
            problem = self._models[name].problem
            logger.error("model '%s' is unavailable: %s", name, problem)
            self._on_change(name)
            return [problem]
        return list(self.apply(plan).values())

    def apply(self, plan: LoadPlan, files: AbstractContextManager[object] | None = None) -> dict[int, str]:
        """Load what a plan asks for and is not loaded yet, in place of what serves; then retire what it leaves out.

        Args:
            plan: for one model.
            files: held as a context by each version that is loaded, until it is closed.

        Returns:
            What went wrong, by version. A version that failed leaves the one served that had its number, and if any
            failed nothing is left out.
        """
        name = plan.source.name
        entry = self._models.setdefault(name, ModelEntry(name, is_required=False))
        ticket = entry.begin_load(plan)
        tried = {number: self._bring(entry, plan, number, ticket, files) for number in plan.origins}
        problems = {number: problem for number, problem in tried.items() if problem}
        entry.finish_load(plan, ticket, succeeded=not problems)
        if not problems:
            self._retire(entry, entry.retire_all_but(plan.origins))
        self._on_change(name)
        return problems

    def _bring(
        self,
        entry: ModelEntry,
        plan: LoadPlan,
        number: int,
        ticket: int,
        files: AbstractContextManager[object] | None,
    ) -> str:
        """Make one version of a plan serve; return what went wrong, or ""."""
        origin = plan.origins[number]
        current = entry.version(number)
        if current is not None and current.state is State.READY and current.origin == origin:
            return ""
        self._retirements.wait(entry.name, self._settle_s)
        if entry.is_overtaken(ticket):
            return UNLOADED
        try:
            loaded = self._load(entry.name, number, plan.source.versions[number], plan.config)
        except LoadError as error:
            return self._note_failure(entry, number, str(error))
        except Exception as error:  # noqa: BLE001 - logged with its traceback
            return self._note_failure(entry, number, f"unexpected {type(error).__name__}: {error}", defect=error)
        if files is not None:
            loaded.hold(files)
        replaced = entry.put_in_service(loaded, origin, ticket)
        if replaced is not None:
            self._retire(entry, [replaced])
        if replaced is loaded:
            return UNLOADED
        self._on_change(entry.name)
        logger.info("model '%s' version %d is ready%s", entry.name, number, ", reloaded" if replaced else "")
        return ""

    def _note_failure(self, entry: ModelEntry, number: int, reason: str, defect: Exception | None = None) -> str:
        still_served = entry.fail(number, reason)
        outcome = "was not reloaded, the one before is still served" if still_served else "is unavailable"
        level = _level(is_news=entry.is_news(number, reason))
        logger.log(level, "model '%s' version %d %s: %s", entry.name, number, outcome, reason, exc_info=defect)
        return reason

    def refuse(self, name: str, problem: str) -> None:
        """Note that a model cannot even be planned; versions that serve go on."""
        entry = self._models.setdefault(name, ModelEntry(name, is_required=False))
        logger.log(_level(is_news=entry.is_news(None, problem)), "model '%s' cannot be loaded: %s", name, problem)
        if not entry.ready:
            entry.problem, entry.is_required = problem, True
            self._on_change(name)

    def unload(self, name: str) -> None:
        """Take a model out of service; what it took is finished in the background. An unknown one is left alone."""
        entry = self._models.get(name)
        if entry is not None:
            self._retire(entry, entry.withdraw())
            self._on_change(name)

    def forget(self, name: str) -> None:
        """Unload a model and know it no longer, since there is no such model any more."""
        self.unload(name)
        self._models.pop(name, None)

    def _retire(self, entry: ModelEntry, retired: Iterable[ModelVersion]) -> None:
        for loaded in retired:
            self._retirements.start(loaded, entry.closed)

    def close(self, timeout_s: float) -> None:
        """Take every version out of service, finish what each took, and free the weights."""
        for entry in list(self._models.values()):
            self._retire(entry, entry.withdraw())
        self._retirements.finish(timeout_s)

    # Looking. --------------------------------------------------------------------------------------------------------

    def find(self, name: str, version_text: str) -> Target:
        """Return what serves a request for this name and version.

        Raises:
            InvalidArgumentError: the version is no number.
            NotFoundError: the model or the version does not exist, or no version of the model is ready.
            UnavailableError: the version exists and is not ready.
        """
        version = parse_version(version_text)
        model, signature, entry = self._resolve(name)
        if version is None:
            ready = entry.ready
            if not ready:
                raise NotFoundError(f"Request for unknown model: '{name}' has no available versions{_because(entry)}")
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
            UnavailableError: no version can run the alias's signature, and the latest has it.
        """
        _, signature, entry = self._resolve(name)
        versions = entry.ready
        if not versions:
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions{_because(entry)}")
        targets = [Target(each, signature) for each in versions if signature is None or signature in each.signatures]
        if signature is not None and not targets:
            versions[-1].find_alias(signature)  # raises, and says why
        return targets

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


def _level(*, is_news: bool) -> int:
    """Return how loud a failure is told: one that goes on, since the load is tried again and again, is a detail."""
    return logging.ERROR if is_news else logging.DEBUG


def _listed(entry: ModelEntry) -> Iterator[IndexEntry]:
    if entry.problem:
        yield IndexEntry(entry.name, "", State.UNAVAILABLE.value, entry.problem)
    for number, version in entry.versions():
        yield IndexEntry(entry.name, str(number), version.state.value, version.reason)


def _because(entry: ModelEntry) -> str:
    reasons = [entry.problem] if entry.problem else []
    reasons += [f"version {number} is {version}" for number, version in entry.versions() if not version.is_withdrawn]
    return f" ({'; '.join(reasons)})" if reasons else ""
