"""The models of a server: which versions exist, in which state, and who serves a name."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError, NotFoundError, UnavailableError
from service.layouts import ModelSource
from service.model_config import check_supported, read_config
from service.model_version import ModelVersion
from service.versions import parse_version, versions_to_serve

Load = Callable[[str, int, Path, ModelConfig], ModelVersion]
"""Loads one version: model, number, version directory, configuration. Raises LoadError."""

logger = logging.getLogger(__name__)


class State(Enum):
    """Where a version is in its life; it only moves down this list, or ends in UNAVAILABLE."""

    LOADING = "LOADING"
    """To be read, or being read and warmed up; not found by requests."""
    READY = "READY"
    """Found by requests."""
    UNLOADING = "UNLOADING"
    """No longer found by requests; those it took are being finished."""
    UNAVAILABLE = "UNAVAILABLE"
    """Failed to load, or unloaded; the reason says which."""


@dataclass(slots=True)
class VersionEntry:
    """One version of a model: its state, the reason for it, and the loaded version while READY."""

    state: State
    reason: str = ""
    loaded: ModelVersion | None = None


@dataclass(slots=True)
class ModelEntry:
    """One model: where it lies, how it is configured, its versions, and why it has none if it has none."""

    source: ModelSource
    config: ModelConfig = field(default_factory=ModelConfig)
    versions: dict[int, VersionEntry] = field(default_factory=dict)
    problem: str = ""

    def latest(self) -> ModelVersion | None:
        """Return the ready version of the highest number, or None."""
        return max(self.ready_versions(), key=lambda loaded: loaded.version, default=None)

    def ready_versions(self) -> list[ModelVersion]:
        """Return the versions that requests find, ascending."""
        ready = [entry.loaded for entry in tuple(self.versions.values()) if entry.loaded is not None]
        return sorted(ready, key=lambda loaded: loaded.version)


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
    """Finds the loaded version for a name. Lookups may come from any thread and never wait for a load."""

    def __init__(self, load: Load) -> None:
        self._load: Final = load
        self._models: Final[dict[str, ModelEntry]] = {}

    def __repr__(self) -> str:
        states = {
            name: {version: entry.state.value for version, entry in model.versions.items()}
            for name, model in self._models.items()
        }
        return f"<Repository {states}>"

    def add(self, source: ModelSource) -> None:
        """Make a model known and read its configuration; requests are then told that it is not ready, not unknown.

        Raises:
            LoadError: there is a model of this name already.
        """
        if source.name in self._models:
            raise LoadError(f"two models are called '{source.name}'; name one of them with --model NAME=PATH")
        entry = ModelEntry(source)
        try:
            entry.config = _read_config(source)
            versions = versions_to_serve(source.versions, entry.config.version_policy, model=source.name)
            entry.versions = {version: VersionEntry(State.LOADING) for version in versions}
        except LoadError as error:
            entry.problem = str(error)
        self._models[source.name] = entry

    def configurations(self) -> dict[str, ModelConfig]:
        """Return the configuration of each model as read; that of a model whose file is wrong is empty."""
        return {name: entry.config for name, entry in self._models.items()}

    def load(self, name: str) -> list[str]:
        """Load the versions of a model that its configuration asks for, lowest first.

        Returns:
            What went wrong, a line each; a version that failed leaves the others served.
        """
        entry = self._models[name]
        if entry.problem:
            logger.error("model '%s' is unavailable: %s", name, entry.problem)
            return [entry.problem]
        return [problem for version in entry.versions if (problem := self._load_version(name, version))]

    def _load_version(self, name: str, version: int) -> str:
        model = self._models[name]
        entry = model.versions[version]
        try:
            entry.loaded = self._load(name, version, model.source.versions[version], model.config)
        except LoadError as error:
            entry.state, entry.reason = State.UNAVAILABLE, str(error)
            logger.error("model '%s' version %d is unavailable: %s", name, version, entry.reason)  # noqa: TRY400 - the text says it all
            return entry.reason
        entry.state = State.READY
        logger.info("model '%s' version %d is ready", name, version)
        return ""

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
            latest = entry.latest()
            if latest is None:
                raise NotFoundError(f"Request for unknown model: '{name}' has no available versions{_because(entry)}")
            return Target(latest, signature)
        known = entry.versions.get(version)
        if known is None:
            raise NotFoundError(f"Request for unknown model: '{name}' version {version} is not found")
        if known.loaded is None:
            reason = f": {known.reason}" if known.reason else ""
            raise UnavailableError(
                f"Request for unknown model: '{model}' version {version} is not at ready state "
                f"({known.state.value}{reason})"
            )
        return Target(known.loaded, signature)

    def _resolve(self, name: str) -> tuple[str, str | None, ModelEntry]:
        """Return the model that a name means: itself, else the longest prefix before a colon that is a model."""
        entry = self._models.get(name)
        if entry is not None:
            return name, None, entry
        end = name.rfind(":")
        while end >= 0:
            entry = self._models.get(name[:end])
            if entry is not None:
                return name[:end], name[end + 1 :], entry
            end = name.rfind(":", 0, end)
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
        versions = entry.ready_versions()
        if not versions:
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions{_because(entry)}")
        targets = [Target(each, signature) for each in versions if signature is None or signature in each.signatures]
        if signature is not None and not targets:
            versions[-1].find_alias(signature)  # raises, and says why
        return targets

    def ready_versions(self, name: str) -> list[ModelVersion]:
        """Return the ready versions of a model (or of the model of an alias), ascending; none when it is unknown."""
        try:
            return self._resolve(name)[2].ready_versions()
        except NotFoundError:
            return []

    def model_names(self) -> list[str]:
        """Return the names of all models, ready or not, ascending."""
        return sorted(self._models)

    def every_model_is_ready(self) -> bool:
        """Whether each model has a ready version."""
        return all(entry.latest() is not None for entry in self._models.values())

    def close(self, timeout_s: float) -> None:
        """Take every version out of service, finish what each took, and free the weights."""
        for model in self._models.values():
            for entry in model.versions.values():
                loaded, entry.loaded = entry.loaded, None
                if loaded is not None:
                    entry.state = State.UNLOADING
                    loaded.close(timeout_s)
                    entry.state, entry.reason = State.UNAVAILABLE, "unloaded"


def _read_config(source: ModelSource) -> ModelConfig:
    if source.problem is not None:
        raise LoadError(f"model '{source.name}': {source.problem}")
    config = ModelConfig() if source.config_path is None else read_config(source.config_path)
    if source.renamed:
        config.ClearField("name")
    check_supported(config, model=source.name)
    return config


def _because(entry: ModelEntry) -> str:
    reasons = [entry.problem] if entry.problem else []
    reasons += [
        f"version {version} is {known.state.value}{f': {known.reason}' if known.reason else ''}"
        for version, known in sorted(entry.versions.items())
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""
