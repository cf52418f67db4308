"""Changes the models of a server: loads, reloads and unloads them while requests are served."""

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.catalog import Catalog
from service.errors import LoadError
from service.layouts import ModelSource
from service.load_plan import LoadPlan, VersionPlan, make_plan
from service.model_entry import UNLOADED, ModelEntry
from service.model_version import ModelVersion
from service.recognition import KnownRequests
from service.retirement import Retirements
from service.settings import ReloadPolicy

Load = Callable[[str, int, Path, ModelConfig], ModelVersion]
"""Loads one version: model, number, version directory, configuration. Raises LoadError."""

logger = logging.getLogger(__name__)


class Repository(Catalog):
    """A catalog whose models are loaded and unloaded.

    Loads come from one thread at a time. Unloads may come from any thread and return at once.
    """

    def __init__(
        self,
        load: Load,
        *,
        on_change: Callable[[str], None] = lambda _name: None,
        policy: ReloadPolicy = ReloadPolicy.LOAD_FIRST,
        settle_s: float = 30.0,
    ) -> None:
        """Create a repository without models.

        Args:
            load: loads one version.
            on_change: called with a model's name when it may have become ready or unready, from any thread.
            policy: whether a version is loaded or unloaded first when one takes the place of another.
            settle_s: how long a load waits, in seconds, for the memory of versions of the same model that were taken
                out of service before.
        """
        super().__init__()
        self._load: Final = load
        self._on_change: Final = on_change
        self._policy: Final = policy
        self._settle_s: Final = settle_s
        self._added: Final[dict[str, LoadPlan]] = {}
        self._retirements: Final = Retirements()

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
        self.known_requests = KnownRequests()

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
        """Load what a plan asks for and is not loaded yet; then, at one moment, put it in place of what serves.

        Args:
            plan: for one model.
            files: held as a context by each version that is loaded, until it is closed.

        Returns:
            What went wrong, by version. A version that failed leaves the one served that had its number, and if any
            failed nothing is left out. Where what serves made room for the load, it is loaded again.
        """
        entry = self._entry(plan.source.name)
        ticket = entry.begin_load(plan)
        wishes = plan.versions(files)
        missing = [wish for wish in wishes if not entry.serves(wish)]
        with ExitStack() as held:
            displaced = self._make_room(entry, wishes, ticket, held) if missing else []
            problems = self._bring(entry, missing, ticket, kept=plan.origins)
            if problems:
                self._bring_back(entry, displaced, ticket)
        entry.finish_load(plan, ticket, succeeded=not problems)
        self._on_change(entry.name)
        return problems

    def _make_room(
        self, entry: ModelEntry, wishes: Sequence[VersionPlan], ticket: int, held: ExitStack
    ) -> list[VersionPlan]:
        """Unload what a load is to replace, if that comes first; return how it was loaded, with its files held."""
        if self._policy is ReloadPolicy.LOAD_FIRST:
            return []
        displaced = entry.make_room(wishes, ticket)
        for made_from in displaced.values():
            if made_from.files is not None:
                held.enter_context(made_from.files)
        if displaced:
            numbers = ", ".join(str(each.version) for each in displaced)
            logger.info("model '%s' version %s is unloaded to make room for the next", entry.name, numbers)
            self._retire(entry, displaced)
            self._on_change(entry.name)
        return list(displaced.values())

    def _bring(
        self, entry: ModelEntry, wishes: Sequence[VersionPlan], ticket: int, *, kept: Container[int] | None = None
    ) -> dict[int, str]:
        """Load versions, put them in service, and unless one failed retire those not kept; return what went wrong."""
        loaded: dict[ModelVersion, VersionPlan] = {}
        problems: dict[int, str] = {}
        for wish in wishes:
            outcome = UNLOADED if entry.is_overtaken(ticket) else self._load_one(entry, wish, ticket)
            if isinstance(outcome, str):
                problems[wish.number] = outcome
            else:
                loaded[outcome] = wish
        before = {each.version for each in entry.ready}
        retired = entry.put_in_service(loaded, ticket, kept=None if problems else kept)
        self._retire(entry, retired)
        self._on_change(entry.name)
        for each in loaded:
            if each in retired:
                problems[each.version] = UNLOADED
            else:
                reloaded = ", reloaded" if each.version in before else ""
                logger.info("model '%s' version %d is ready%s", entry.name, each.version, reloaded)
        return problems

    def _load_one(self, entry: ModelEntry, wish: VersionPlan, ticket: int) -> ModelVersion | str:
        """Return a version, not yet in service, or what went wrong."""
        self._retirements.wait(entry.name, self._settle_s)
        if entry.is_overtaken(ticket):
            return UNLOADED
        entry.show_loading(wish.number)
        try:
            loaded = self._load(entry.name, wish.number, wish.directory, wish.config)
        except LoadError as error:
            return self._note_failure(entry, wish.number, str(error))
        except Exception as error:  # noqa: BLE001 - logged with its traceback
            reason = f"unexpected {type(error).__name__}: {error}"
            return self._note_failure(entry, wish.number, reason, defect=error)
        if wish.files is not None:
            loaded.hold(wish.files)
        return loaded

    def _bring_back(self, entry: ModelEntry, displaced: Iterable[VersionPlan], ticket: int) -> None:
        """Load again what made room for a load that failed, as far as its files are still there."""
        ready = {each.version for each in entry.ready}
        wishes = [wish for wish in displaced if wish.number not in ready and wish.can_be_repeated()]
        if wishes and not entry.is_overtaken(ticket):
            logger.info("model '%s': what served before is loaded again", entry.name)
            self._bring(entry, wishes, ticket)

    def _note_failure(self, entry: ModelEntry, number: int, reason: str, defect: Exception | None = None) -> str:
        still_served = entry.fail(number, reason)
        outcome = "was not reloaded, the one before is still served" if still_served else "is unavailable"
        level = _level(is_news=entry.is_news(number, reason))
        logger.log(level, "model '%s' version %d %s: %s", entry.name, number, outcome, reason, exc_info=defect)
        return reason

    def may_repeat(self, name: str) -> bool:
        """Whether a load that failed may be tried again unasked: not where it takes out of service what serves."""
        return self._policy is ReloadPolicy.LOAD_FIRST or not self.ready_versions(name)

    def refuse(self, name: str, problem: str) -> None:
        """Note that a model cannot even be planned; versions that serve go on."""
        entry = self._entry(name)
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
        self.known_requests = KnownRequests()

    def _entry(self, name: str) -> ModelEntry:
        """Return the entry of a model, a new one for a model that was not known."""
        entry = self._models.get(name)
        if entry is None:
            entry = self._models[name] = ModelEntry(name, is_required=False)
            self.known_requests = KnownRequests()
        return entry

    def _retire(self, entry: ModelEntry, retired: Iterable[ModelVersion]) -> None:
        """Close versions in the background that requests do not find any more."""
        self.known_requests = KnownRequests()
        for loaded in retired:
            self._retirements.start(loaded, entry.closed)

    def close(self, timeout_s: float) -> None:
        """Take every version out of service, finish what each took, and free the weights."""
        for entry in list(self._models.values()):
            self._retire(entry, entry.withdraw())
        self._retirements.finish(timeout_s)


def _level(*, is_news: bool) -> int:
    """Return how loud a failure is told: one that goes on, since the load is tried again and again, is a detail."""
    return logging.ERROR if is_news else logging.DEBUG
