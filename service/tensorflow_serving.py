"""Reads the files with which TensorFlow Serving is configured: models.config and batching_parameters.txt."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from protos.model_config_pb2 import ModelVersionPolicy
from protos.tensorflow_serving_pb2 import OTHER, BatchingParameters, ModelConfig, ModelServerConfig
from service.config_completion import ConfigDefaults
from service.errors import LoadError
from service.instance_groups import MAX_INSTANCES
from service.model_config import parse_file

PLATFORM: Final = "tensorflow"
_MAX_SIZE: Final = 2**31 - 1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ListedModel:
    """A model that models.config lists.

    Attributes:
        name: the model's name.
        path: the directory of its versions.
        version_policy: which of them are served; None when the file does not say.
    """

    name: str
    path: Path
    version_policy: ModelVersionPolicy | None


def read_models(path: Path) -> list[ListedModel]:
    """Read a models.config.

    Raises:
        LoadError: the file cannot be read, says what cannot be had, or lists a name twice or a model without a place.
    """
    config = parse_file(path, ModelServerConfig())
    models = [_listed(entry, f"{path}: model '{entry.name}'") for entry in config.model_config_list.config]
    names = [model.name for model in models]
    for name in names:
        if names.count(name) > 1:
            raise LoadError(f"{path}: model '{name}' is listed {names.count(name)} times")
    return models


def _listed(entry: ModelConfig, place: str) -> ListedModel:
    if not (entry.name and entry.base_path):
        raise LoadError(f"{place}: both name and base_path are needed")
    if entry.model_platform not in ("", PLATFORM):
        raise LoadError(f'{place}: asks for model_platform: "{entry.model_platform}", which Signet cannot do')
    if entry.model_type == OTHER:
        raise LoadError(f"{place}: asks for model_type: OTHER, which Signet cannot do")
    if "://" in entry.base_path:
        raise LoadError(f"{place}: base_path '{entry.base_path}' is not on a file system of this machine")
    if entry.version_labels:
        labels = ", ".join(sorted(entry.version_labels))
        logger.warning("%s: version_labels (%s) are ignored: this protocol names versions by number", place, labels)
    policy = entry.model_version_policy if entry.HasField("model_version_policy") else None
    return ListedModel(entry.name, Path(entry.base_path), policy)


class ModelList:
    """The models of a models.config, as it is now: whoever asks again may get others."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            LoadError: see ``read_models``.
        """
        self._path = path
        self._seen = self._state()
        self._models = read_models(path)

    def models(self) -> list[ListedModel]:
        """Return what the file lists; as long as it is broken or gone, what it listed before, with one warning."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._models = read_models(self._path)
            except LoadError as error:
                logger.warning("%s; what it listed before stays in force", error)
        return self._models

    def _state(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns


def with_batching_parameters(defaults: ConfigDefaults, path: Path) -> ConfigDefaults:
    """Return defaults in which the values of a batching_parameters.txt take the place of others.

    Raises:
        LoadError: the file cannot be read, or a value is out of its range or contradicts another.
    """
    given = parse_file(path, BatchingParameters())
    for problem in _problems(given):
        raise LoadError(f"{path}: {problem}")
    if given.HasField("thread_pool_name"):
        logger.warning("%s: thread_pool_name is ignored: threads are named after their model", path)
    sizes = tuple(given.allowed_batch_sizes)
    largest = given.max_batch_size.value or (sizes[-1] if sizes else defaults.default_max_batch_size)
    return replace(
        defaults,
        default_max_batch_size=largest,
        max_queue_delay_us=_value(given, "batch_timeout_micros", defaults.max_queue_delay_us),
        instance_count=_value(given, "num_batch_threads", defaults.instance_count),
        allowed_batch_sizes=sizes,
        max_enqueued_batches=given.max_enqueued_batches.value,
        pads_variable_lengths=given.pad_variable_length_inputs,
    )


def _problems(given: BatchingParameters) -> Iterator[str]:
    for name, lowest, highest in (
        ("max_batch_size", 1, _MAX_SIZE),
        ("batch_timeout_micros", 0, 2**63 - 1),
        ("max_enqueued_batches", 1, _MAX_SIZE),
        ("num_batch_threads", 1, MAX_INSTANCES),
    ):
        value = _value(given, name, lowest)
        if not lowest <= value <= highest:
            yield f"{name} must be from {lowest} to {highest}, but is {value}"
    sizes = list(given.allowed_batch_sizes)
    if sizes != sorted(set(sizes)) or (sizes and not 1 <= sizes[0] <= sizes[-1] <= _MAX_SIZE):
        yield f"allowed_batch_sizes must ascend from 1 or more, but are {sizes}"
    elif sizes and given.HasField("max_batch_size") and sizes[-1] != given.max_batch_size.value:
        yield f"the last of allowed_batch_sizes must be max_batch_size {given.max_batch_size.value}, not {sizes[-1]}"


def _value(given: BatchingParameters, name: str, default: int) -> int:
    return int(getattr(given, name).value) if given.HasField(name) else default
