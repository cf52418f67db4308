"""What a load would bring: the configuration in force, and the versions with what each is made of."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError
from service.file_identity import Files, files_below, files_beside, last_change_below, last_change_beside
from service.layouts import CUSTOM_CONFIGS, ModelSource
from service.model_config import check_supported, read_config
from service.versions import versions_to_serve

Origin = tuple[Files, Files, bytes]
"""What a loaded version is made of: its files, those beside the configuration, and the configuration itself."""

_NO_FILES: Final[Files] = frozenset()


@dataclass(frozen=True)
class VersionPlan:
    """The wish for one version.

    Attributes:
        number: of the version.
        directory: where it lies.
        config: the model's configuration.
        origin: what it is made of.
        files: held as a context by whoever needs the directory; None for one that stays by itself.
    """

    number: int
    directory: Path
    config: ModelConfig = field(repr=False)
    origin: Origin = field(repr=False)
    files: AbstractContextManager[object] | None = None

    def can_be_repeated(self) -> bool:
        """Whether a load would find the very files again."""
        return files_below(self.directory) == self.origin[0]


@dataclass(frozen=True)
class LoadPlan:
    """The wish of one load, for one model.

    Attributes:
        source: where the model lies.
        config: its configuration, as read or as given for this load.
        override: the configuration that was given in place of the file, or None.
        origins: of each version to serve, ascending; a loaded version of the same origin need not be loaded again.
        files: all files of the model, those of versions that are not chosen too.
    """

    source: ModelSource
    config: ModelConfig = field(repr=False)
    override: ModelConfig | None = field(repr=False)
    origins: Mapping[int, Origin] = field(repr=False)
    files: tuple[Files, Mapping[int, Files]] = field(repr=False)

    def lacks_nothing_of(self, other: "LoadPlan") -> bool:
        """Whether every version, and every file beside them, that another plan saw is there still, maybe changed."""
        beside, of_versions = self.files
        others_beside, of_others_versions = other.files
        names = {name for name, *_ in beside}
        return of_others_versions.keys() <= of_versions.keys() and {name for name, *_ in others_beside} <= names

    def last_change(self) -> float:
        """Return when what it is made of was last written, in seconds of the system's clock; a move is no change."""
        beside = (last_change_beside(directory) for directory in _directories_beside(self.source.config_path))
        return max(*(last_change_below(self.source.versions[number]) for number in self.origins), *beside, 0.0)

    def versions(self, files: AbstractContextManager[object] | None = None) -> list[VersionPlan]:
        """Return the wish for each version, ascending; ``files`` is what holds the directories."""
        return [
            VersionPlan(number, self.source.versions[number], self.config, origin, files)
            for number, origin in self.origins.items()
        ]


def make_plan(source: ModelSource, override: ModelConfig | None = None, previous: LoadPlan | None = None) -> LoadPlan:
    """Look at a model's files and decide what a load of it means.

    Args:
        source: the model as found on disk now.
        override: a configuration in place of its config.pbtxt. An earlier one stays in force while no file changes.
        previous: what is loaded, if anything is.

    Raises:
        LoadError: the configuration cannot be read or fulfilled, or the model has no version to serve.
    """
    if source.problem is not None:
        raise LoadError(f"model '{source.name}': {source.problem}")
    files = _files(source)
    if override is None and previous is not None and previous.files == files:
        override = previous.override
    config = read_source_config(source) if override is None else override
    check_supported(config, model=source.name)
    settings = config.SerializeToString(deterministic=True)
    beside, of_versions = files
    chosen = versions_to_serve(source.versions, config.version_policy, model=source.name)
    origins = {version: (of_versions[version], beside, settings) for version in chosen}
    return LoadPlan(source, config, override, origins, files)


def read_source_config(source: ModelSource) -> ModelConfig:
    """Read a model's config.pbtxt; where it has none or does not say, what else is known of the model.

    Raises:
        LoadError: the file cannot be read, or is not the text of a ModelConfig.
    """
    config = ModelConfig() if source.config_path is None else read_config(source.config_path)
    if source.renamed:
        config.ClearField("name")
    if source.version_policy is not None and not config.HasField("version_policy"):
        config.version_policy.CopyFrom(source.version_policy)
    return config


def _files(source: ModelSource) -> tuple[Files, Mapping[int, Files]]:
    return _files_beside(source.config_path), {
        version: files_below(directory) for version, directory in source.versions.items()
    }


def _files_beside(config_path: Path | None) -> Files:
    """Return those that a configuration may name, such as labels, and the configuration itself."""
    return _NO_FILES.union(*map(files_beside, _directories_beside(config_path)))


def _directories_beside(config_path: Path | None) -> list[Path]:
    if config_path is None:
        return []
    directory = config_path.parent
    return [directory, directory.parent] if directory.name == CUSTOM_CONFIGS else [directory]
