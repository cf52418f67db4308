"""The directory layouts that people have, recognised by looking.

| layout | example | served as |
| --- | --- | --- |
| a SavedModel | ``export/saved_model.pb`` | model ``export``, version 1 |
| TensorFlow Serving base path | ``clip/7/saved_model.pb`` | model ``clip``, version 7 |
| several of those | ``models/clip/7/saved_model.pb`` | model ``clip`` and its neighbours |
| Triton repository | ``models/clip/7/model.savedmodel/saved_model.pb`` | model ``clip`` and its neighbours |
"""

import logging
import re
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelVersionPolicy
from service.errors import LoadError

CONFIG_FILE: Final = "config.pbtxt"

CUSTOM_CONFIGS: Final = "configs"
"""The directory of a model's further configurations, of which an option chooses one by its name."""

_GRAPH_FILES: Final = ("saved_model.pb", "saved_model.pbtxt")
_EXPECTED: Final = frozenset({CUSTOM_CONFIGS, "warmup"})
"""Directories beside the versions that Triton knows, too."""

_VERSION: Final = re.compile(r"[0-9]+")
_MAX_VERSION: Final = 2**63 - 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelSource:
    """Where one model lies on disk.

    Attributes:
        name: the model's name.
        versions: the directory of each version number; a version directory or, for a bare SavedModel, the SavedModel.
        config_path: its config.pbtxt or the chosen file of ``configs/``, or None when it has neither.
        problem: why nothing of it can be served, or None.
        version_policy: which versions are served where its configuration does not say; None likewise.
        renamed: whether the user chose the name, so that the name in the configuration does not count.
        is_empty: whether the problem is that its directory holds no version.
    """

    name: str
    versions: dict[int, Path] = field(default_factory=dict)
    config_path: Path | None = None
    problem: str | None = None
    version_policy: ModelVersionPolicy | None = None
    renamed: bool = False
    is_empty: bool = False


def is_saved_model(directory: Path) -> bool:
    """Whether the directory itself holds a SavedModel's graph; the load tells of one that is no file."""
    return any((directory / name).exists() for name in _GRAPH_FILES)


def saved_model_directory(version_directory: Path, model_filename: str) -> Path:
    """Return the SavedModel inside a version directory.

    Args:
        version_directory: as listed in ``ModelSource.versions``.
        model_filename: the name that the configuration gives it (``default_model_filename``).

    Raises:
        LoadError: there is no SavedModel in it, it cannot be read, or the name leads elsewhere. Callers may send
            configurations, too, and must not reach models that nobody put into the repository.
    """
    if Path(model_filename).is_absolute() or ".." in Path(model_filename).parts:
        raise LoadError(f"default_model_filename '{model_filename}' must lie in {version_directory}")
    try:
        for candidate in (version_directory / model_filename, version_directory):
            if is_saved_model(candidate):
                return candidate
    except OSError as error:
        raise LoadError(f"{version_directory}: cannot be read: {error.strerror}") from error
    raise LoadError(
        f"{version_directory}: no SavedModel: neither {_GRAPH_FILES[0]} nor {model_filename}/{_GRAPH_FILES[0]} is there"
    )


def model_directory(version_directory: Path) -> Path:
    """Return the directory in which a model's configuration and its label files lie.

    Args:
        version_directory: as listed in ``ModelSource.versions``. A bare SavedModel is the model's directory itself.
    """
    if is_version(version_directory.name) and not (version_directory / CONFIG_FILE).is_file():
        return version_directory.parent
    return version_directory


def find_models(path: Path, config_name: str | None = None) -> list[ModelSource]:
    """Return the models that a path holds, in ascending order of name.

    Args:
        path: a model, or a directory of models.
        config_name: as in ``find_model``.

    Raises:
        LoadError: the path does not exist, is no directory, cannot be read, or holds no model.
    """
    try:
        if not path.exists():
            raise LoadError(f"{path}: no such directory")
        if not path.is_dir():
            raise LoadError(f"{path}: is a file; expected the directory of a SavedModel or of a model repository")
        source = find_model(path, own_name(path), config_name)
        sources = [source] if source is not None else _find_in_repository(path, config_name)
    except OSError as error:
        raise LoadError(f"{path}: cannot be read: {error.strerror}") from error
    if not sources:
        raise LoadError(
            f"{path}: no model found: it holds neither {_GRAPH_FILES[0]}, nor a directory with a version number that "
            "holds one, nor directories of models"
        )
    return sources


def find_model(directory: Path, name: str, config_name: str | None = None) -> ModelSource | None:
    """Return the one model that a directory is, or None when it is none.

    Args:
        directory: an existing directory.
        name: the name to give the model.
        config_name: ``configs/NAME.pbtxt`` goes before config.pbtxt where it is there, as in Triton.

    Raises:
        OSError: the directory cannot be read.
    """
    config = _find_config(directory, config_name)
    if is_saved_model(directory):
        return ModelSource(name, {1: directory}, config)
    entries = [entry for entry in sorted(directory.iterdir()) if not entry.name.startswith(".")]
    numbered = [entry for entry in entries if is_version(entry.name) and entry.is_dir()]
    versions: dict[int, Path] = {}
    for entry in numbered:
        other = versions.setdefault(int(entry.name), entry)
        if other is not entry:
            return ModelSource(name, {}, config, f"{other} and {entry} mean the same version")
    if not versions:
        return None if config is None else empty_model(directory, name, config)
    _warn_of_the_rest(directory, [entry for entry in entries if entry not in numbered])
    return ModelSource(name, versions, config)


def _find_config(directory: Path, config_name: str | None) -> Path | None:
    """Return the configuration's place if anything is there; whoever reads it refuses what is no file."""
    if config_name:
        chosen = directory / CUSTOM_CONFIGS / f"{config_name}.pbtxt"
        if chosen.exists() and not chosen.is_dir():
            return chosen
    usual = directory / CONFIG_FILE
    return usual if usual.exists() else None


def empty_model(directory: Path, name: str, config_path: Path | None = None) -> ModelSource:
    """Return a model that has a directory and no version."""
    return ModelSource(name, {}, config_path, f"{directory}: no version directory", is_empty=True)


def own_name(directory: Path) -> str:
    """Return the name of a model that is the directory itself."""
    return directory.name if directory.name not in ("", "..") else directory.resolve().name


def is_hidden(name: str) -> bool:
    """Whether an entry of a model repository is never a model.

    Kubernetes keeps the real files of a volume in ``..data`` and links to them; a disk of its own has a lost+found that
    only root can read.
    """
    return name.startswith(".") or name == "lost+found"


def is_model(directory: Path) -> bool:
    """Whether a directory is one model, and not a repository of several.

    Raises:
        OSError: the directory cannot be read.
    """
    if is_saved_model(directory) or (directory / CONFIG_FILE).is_file():
        return True
    return any(is_version(entry.name) and entry.is_dir() for entry in directory.iterdir())


def is_version(name: str) -> bool:
    """Whether a directory of this name is a version; a number that no request can write is none."""
    return _VERSION.fullmatch(name) is not None and int(name) <= _MAX_VERSION


def _warn_of_the_rest(directory: Path, rest: list[Path]) -> None:
    """Name once what looks like a version and is none; files with other names (labels, configuration) are expected."""
    ignored = [
        entry.name for entry in rest if entry.name[0].isdigit() or (entry.is_dir() and entry.name not in _EXPECTED)
    ]
    if ignored:
        _warn_once(f"{directory}: ignored, no versions: {', '.join(map(repr, ignored))}")


@lru_cache(maxsize=1024)
def _warn_once(text: str) -> None:
    """Log a warning the first time; a server may look at the same directories again and again."""
    logger.warning("%s", text)


def _find_in_repository(path: Path, config_name: str | None) -> list[ModelSource]:
    sources, ignored = [], []
    for entry in sorted(path.iterdir()):
        if is_hidden(entry.name):
            continue
        source = _source_of(entry, config_name)
        if source is None:
            ignored.append(entry.name)
        else:
            sources.append(source)
    if ignored and sources:
        _warn_once(f"{path}: ignored, no models: {', '.join(map(repr, ignored))}")
    return sources


def _source_of(entry: Path, config_name: str | None) -> ModelSource | None:
    """Return the model that an entry of a repository is, or None; one that cannot be read leaves the others alone."""
    try:
        return find_model(entry, entry.name, config_name) if entry.is_dir() else None
    except OSError as error:
        return ModelSource(entry.name, problem=f"{entry}: cannot be read: {error.strerror}")
