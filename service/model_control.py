"""Loads and unloads models on request, while the others serve."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from protos.model_config_pb2 import ModelConfig
from service.alias import split_alias
from service.catalog import IndexEntry
from service.errors import InternalError, InvalidArgumentError, LoadError, UnavailableError
from service.layouts import ModelSource
from service.load_plan import make_plan
from service.model_config import parse_override
from service.model_places import ModelPlaces
from service.repository import Repository
from service.settings import ControlMode
from service.uploads import LONGEST_NAME_BYTES, Upload, Uploads, check_paths

_PATH_CHARACTERS: Final = frozenset("/\\\0")


class ModelControl:
    """What callers may do to the models of a server.

    Everything that waits, for a disk or for a model, is done by threads of this class and told through futures: one
    thread loads, so that loads are done one after the other in the order in which they were asked for; another lists
    what could be loaded. A future that is cancelled before its turn is never begun.
    """

    def __init__(
        self, repository: Repository, places: ModelPlaces, mode: ControlMode, uploads: Uploads | None = None
    ) -> None:
        """Take control.

        Args:
            repository: what is loaded.
            places: where models are looked for at the time they are loaded.
            mode: whether callers may load and unload.
            uploads: where the files go that callers bring; None takes none.
        """
        self._repository: Final = repository
        self._places: Final = places
        self._mode: Final = mode
        self._uploads: Final = uploads
        self._loader: Final = ThreadPoolExecutor(1, thread_name_prefix="model-load")
        self._lister: Final = ThreadPoolExecutor(1, thread_name_prefix="model-index")

    def __repr__(self) -> str:
        return f"<ModelControl {self._mode.value} of {self._repository!r}>"

    def check_allowed(self) -> None:
        """Check that callers may load and unload.

        Raises:
            UnavailableError: the mode does not allow it.
        """
        if self._mode is not ControlMode.EXPLICIT:
            raise UnavailableError("explicit model load / unload is not allowed if polling is enabled")

    def load(
        self, name: str, config_json: str | None = None, files: Mapping[str, bytes] | None = None
    ) -> "Future[None]":
        """Load a model, or load it anew if its files or its configuration changed.

        The old version serves until the new one is ready, and if it fails.

        Args:
            name: of the model.
            config_json: a ModelConfig that takes the place of its config.pbtxt; it stays in force, also for later loads
                without one, until a file of the model changes or the model is unloaded.
            files: by path, in the model's directory. They and ``config_json`` are all that the model is then made of; a
                later load without files takes the model from its place again.

        Returns:
            Done when the model is ready. Its failure is an InternalError (the model or its configuration cannot be
            found or read), InvalidArgumentError (a name that means a signature) or LoadError (a version cannot be
            loaded).

        Raises:
            UnavailableError: the mode does not allow it.
            InvalidArgumentError: no model can have this name; or there are files, and no configuration, or the server
                takes none, or they could lead elsewhere.
            InternalError: the configuration is no ModelConfig, or is that of another model.
        """
        self.check_allowed()
        if not name or name in (".", "..") or not _PATH_CHARACTERS.isdisjoint(name):
            raise InvalidArgumentError(
                f"failed to load {name!r}: expected the name of a model, without path characters"
            )
        override = None if config_json is None else _parse_override(name, config_json)
        if files:
            return self._submit_upload(name, override, files)
        return self._loader.submit(self._load_from_place, name, override)

    def _submit_upload(self, name: str, config: ModelConfig | None, files: Mapping[str, bytes]) -> "Future[None]":
        if self._uploads is None:
            raise InvalidArgumentError(
                f"failed to load '{name}': this server takes no files from callers, since its option "
                "--allow-file-override is not set"
            )
        if config is None:
            raise InvalidArgumentError(f"failed to load '{name}': a load with files needs the parameter 'config', too")
        if len(name.encode()) > LONGEST_NAME_BYTES:
            raise InvalidArgumentError(f"failed to load '{name}': its name has more than {LONGEST_NAME_BYTES} bytes")
        check_paths(files)
        return self._loader.submit(self._load_upload, name, config, files, self._uploads)

    def _load_upload(self, name: str, config: ModelConfig, files: Mapping[str, bytes], uploads: Uploads) -> None:
        self._check_is_model(name)
        try:
            upload = uploads.write(files)
        except OSError as error:
            raise InternalError(f"failed to load '{name}': its files cannot be written: {error.strerror}") from error
        with upload:
            self._load(upload.source(name), config, upload)

    def _check_is_model(self, name: str) -> None:
        """Refuse the name of a signature, unless a model has this very name."""
        models = {*self._repository.model_names(), *self._places.names()}
        if name not in models:
            _refuse_alias(name, models)

    def _load_from_place(self, name: str, override: ModelConfig | None) -> None:
        self._load(self._find(name), override)

    def _load(self, source: ModelSource, override: ModelConfig | None, upload: Upload | None = None) -> None:
        name = source.name
        try:
            plan = make_plan(source, override, self._repository.plan(name))
        except LoadError as error:
            if override is None:
                self._repository.refuse(name, str(error))
            raise LoadError(f"load failed for model '{name}': {error}") from error
        problems = self._repository.apply(plan, upload)
        if problems:
            listed = " ".join(
                f"version {number} is at UNAVAILABLE state: {problem};" for number, problem in problems.items()
            )
            raise LoadError(f"load failed for model '{name}': {listed}")

    def _find(self, name: str) -> ModelSource:
        try:
            source = self._places.find(name)
        except LoadError as error:
            raise InternalError(_not_polled(name, f": {error}")) from error
        if source is None:
            self._check_is_model(name)
            raise InternalError(_not_polled(name))
        return source

    def unload(self, name: str) -> None:
        """Take a model out of service: it is not found from now on; what it took is finished in the background.

        A model that is not loaded, or not known, is left alone.

        Raises:
            UnavailableError: the mode does not allow it.
            InvalidArgumentError: the name means a signature of a model.
        """
        self.check_allowed()
        known = self._repository.model_names()
        if name not in known:
            _refuse_alias(name, known)
        self._repository.unload(name)

    def index(self) -> "Future[list[IndexEntry]]":
        """Return every version that was asked for, and once each model that never was but could be; by name."""
        return self._lister.submit(self._index)

    def _index(self) -> list[IndexEntry]:
        listed = self._repository.index()
        if self._mode is ControlMode.EXPLICIT:
            known = {entry.name for entry in listed}
            listed += [IndexEntry(name) for name in self._places.names() if name not in known]
        return sorted(listed, key=lambda entry: entry.name)

    def close(self) -> None:
        """Take nothing more, and wait for what was begun."""
        for executor in (self._loader, self._lister):
            executor.shutdown(cancel_futures=True)


def _parse_override(name: str, text: str) -> ModelConfig:
    try:
        return parse_override(text, model=name)
    except LoadError as error:
        raise InternalError(_not_polled(name, f": {error}")) from error


def _not_polled(name: str, reason: str = "") -> str:
    return f"failed to load '{name}', failed to poll from model repository{reason}"


def _refuse_alias(name: str, models: Collection[str]) -> None:
    """Refuse a name of the form MODEL:SIGNATURE, since all signatures of a model come and go together."""
    alias = split_alias(name, models)
    if alias is not None:
        raise InvalidArgumentError(
            f"'{name}' names a signature of model '{alias[0]}'; only whole models can be loaded and unloaded"
        )
