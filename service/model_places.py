"""Where models lie, as the options say, and how one is found there by its name."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from service.errors import LoadError
from service.layouts import ModelSource, empty_model, find_model, find_models, is_hidden, is_model, own_name
from service.tensorflow_serving import ListedModel, ModelList

_LONGEST_NAME_BYTES: Final = 255  # of an entry of a directory


class ModelPlaces:
    """The directories and single models that a server may serve from. Each call looks at the disk anew."""

    def __init__(
        self,
        repositories: Sequence[Path],
        models: Sequence[str] = (),
        *,
        listing: Path | None = None,
        config_name: str | None = None,
    ) -> None:
        """Take the places from the options.

        Args:
            repositories: models, or directories of models, in any layout.
            models: ``NAME=PATH`` for single models.
            listing: TensorFlow Serving's models.config, which lists single models, too.
            config_name: of the configuration in a model's ``configs/`` that goes before its config.pbtxt.

        Raises:
            LoadError: one of ``models`` is not written so, the listing cannot be used, or there is no place at all.
        """
        self._repositories: Final = tuple(repositories)
        self._config_name: Final = config_name
        self._models: Final = [_split(option) for option in models]
        self._listing: Final = None if listing is None else ModelList(listing)
        if not (self._repositories or self._models or self._listing):
            raise LoadError("nothing to serve: give the path of a SavedModel or of a model repository")

    def all_models(self) -> list[ModelSource]:
        """Return every model, for a server that loads them all when it starts.

        Raises:
            LoadError: a place holds nothing that can be served.
        """
        sources = [source for path in self._repositories for source in find_models(path, self._config_name)]
        return sources + [self._single_model(model) for model in self._single_models()]

    def present_models(self) -> list[ModelSource]:
        """Return the models that are there now, for a server that waits for others.

        A directory without a version is none yet.

        Raises:
            LoadError: a place cannot be read, or a name is in two places.
        """
        self.check()
        sources = map(self.find, self.names())
        return [source for source in sources if source is not None and not source.is_empty]

    def check(self) -> None:
        """Check that the directories are there; they may still be empty.

        Raises:
            LoadError: one is not there, is no directory, or cannot be read.
        """
        for path in self._repositories:
            if not path.is_dir():
                raise LoadError(f"{path}: no such directory")
            try:
                next(path.iterdir(), None)
            except OSError as error:
                raise LoadError(f"{path}: cannot be read: {error.strerror}") from error

    def names(self) -> list[str]:
        """Return the names under which a model could be loaded, ascending; what is there may yet turn out to be none.

        A directory that cannot be read has no names.
        """
        names = {model.name for model in self._single_models()}
        for path in self._repositories:
            try:
                names.update(_names_in(path))
            except OSError:
                continue
        return sorted(names)

    def find(self, name: str) -> ModelSource | None:
        """Return the model of a name, or None when it is in no place.

        Args:
            name: without path characters, so that it cannot lead out of a place.

        Raises:
            LoadError: it cannot be read, or is in two places.
        """
        if is_hidden(name) or len(os.fsencode(name)) > _LONGEST_NAME_BYTES:
            found = []
        else:
            try:
                found = [source for path in self._repositories for source in self._find_in(path, name)]
            except OSError as error:
                raise LoadError(f"model '{name}': {error.filename} cannot be read: {error.strerror}") from error
        found += [self._single_model(model) for model in self._single_models() if model.name == name]
        if len(found) > 1:
            raise LoadError(f"two models are called '{name}'; name one of them with --model NAME=PATH")
        return found[0] if found else None

    def _single_models(self) -> list[ListedModel]:
        return self._models + (self._listing.models() if self._listing else [])

    def _single_model(self, model: ListedModel) -> ModelSource:
        found = find_models(model.path, self._config_name)
        if len(found) != 1:
            raise LoadError(
                f"model '{model.name}': {model.path} holds {len(found)} models; expected the directory of one"
            )
        return replace(found[0], name=model.name, renamed=True, version_policy=model.version_policy)

    def _find_in(self, path: Path, name: str) -> Iterator[ModelSource]:
        directory = path / name
        if is_model(path):
            if own_name(path) != name:
                return
            directory = path
        if directory.is_dir():
            yield find_model(directory, name, self._config_name) or empty_model(directory, name)


def _split(option: str) -> ListedModel:
    name, separator, path = option.partition("=")
    if not (name and separator and path):
        raise LoadError(f"--model {option}: expected NAME=PATH")
    return ListedModel(name, Path(path), None)


def _names_in(path: Path) -> list[str]:
    if is_model(path):
        return [own_name(path)]
    return [entry.name for entry in path.iterdir() if not is_hidden(entry.name) and entry.is_dir()]
