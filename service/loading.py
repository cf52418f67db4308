"""Loads versions: what the process shares, then SavedModel, configuration and warm-up of each."""

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from protos.model_config_pb2 import ModelConfig
from service import saved_model
from service.completed_config import CompletedConfig
from service.config_completion import ConfigDefaults, complete
from service.devices import DeviceChoice, DeviceKind, Instances
from service.errors import LoadError
from service.ignored_fields import ignored_fields
from service.instance_groups import complete_instance_groups, instances
from service.labels import read_labels
from service.layouts import model_directory, saved_model_directory
from service.model_config import MODEL_FILENAME, graph_tags, thread_counts
from service.model_version import ModelVersion
from service.optimization_config import optimizations
from service.optimizations import Optimizations
from service.precision_check import ReferenceRun, log_differences, reference_runs
from service.row_probe import distinct_rows, probe_signatures
from service.servable import Servable
from service.settings import Settings
from service.timed_steps import timed
from service.warm_up import warm_up
from service.warm_up_samples import Sample, read_samples

if TYPE_CHECKING:
    from service.saved_model.servable import SavedModelServable  # TensorFlow starts with the first load

logger = logging.getLogger(__name__)


def configure_runtime(configs: Mapping[str, ModelConfig], settings: Settings) -> None:
    """Fix what all models of the process share, before TensorFlow starts: thread counts, devices and op libraries.

    Args:
        configs: of every model, by name.
        settings: of the server; a model's own number of threads goes before it.

    Raises:
        LoadError: two models want different numbers of threads (the text names both), or there is no such GPU.
    """
    counts = {name: thread_counts(config, model=name) for name, config in configs.items()}
    device = DeviceChoice.parse(settings.device)
    saved_model.configure(
        saved_model.RuntimeOptions(
            intra_op_threads=_agreed("TF_NUM_INTRA_THREADS", {name: each.intra_op for name, each in counts.items()})
            or settings.intra_op_threads,
            inter_op_threads=_agreed("TF_NUM_INTER_THREADS", {name: each.inter_op for name, each in counts.items()})
            or settings.inter_op_threads,
            device=device,
            gpu_memory_mib=settings.gpu_memory,
            gpu_allocator=settings.gpu_allocator,
            op_libraries=(
                *settings.op_library,
                *(Path(library) for each in configs.values() for library in each.model_operations.op_library_filename),
            ),
        )
    )
    if device.kind is DeviceKind.GPU:  # better said now than by every model
        saved_model.devices()


def runtime_in_force() -> str:
    """Return what TensorFlow was told and what it found, for the log."""
    options = saved_model.options_in_force()
    devices = ", ".join(saved_model.devices_in_use()) or "no devices before the first model"
    threads = f"{options.intra_op_threads} threads within an op, {options.inter_op_threads} for ops side by side"
    return f"{devices}; {threads}"


def _agreed(parameter: str, wishes: Mapping[str, int | None]) -> int | None:
    """Return the number that every model with a wish wants, or None when none has one."""
    given = {name: wish for name, wish in wishes.items() if wish is not None}
    if len(set(given.values())) > 1:
        listed = ", ".join(f"{wish} in model '{name}'" for name, wish in given.items())
        raise LoadError(f"{parameter} holds for the whole process, but is {listed}")
    return next(iter(given.values()), None)


def _check_process(config: ModelConfig, name: str) -> None:
    """Refuse what can be had only when the process starts; what a caller asks for must not bring in a library either.

    Raises:
        LoadError: the configuration wants another number of threads, or an op library that is not there.
    """
    fixed = saved_model.options_in_force()
    counts = thread_counts(config, model=name)
    for parameter, wish, count in (
        ("TF_NUM_INTRA_THREADS", counts.intra_op, fixed.intra_op_threads),
        ("TF_NUM_INTER_THREADS", counts.inter_op, fixed.inter_op_threads),
    ):
        if wish and wish != count:
            raise LoadError(f"model '{name}': {parameter} is {wish}, but this process was started with {count} threads")
    for library in config.model_operations.op_library_filename:
        if Path(library) not in fixed.op_libraries:
            raise LoadError(f"model '{name}': op library '{library}' was not loaded when this process was started")


def _check_name(name: str) -> None:
    """Refuse a model that no request can name; a directory's name may be any bytes, a message holds UTF-8.

    Raises:
        LoadError: the name is no UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise LoadError("the model's name is no UTF-8; give it another with --model NAME=PATH") from error


class VersionLoader:
    """Loads the versions of one server. Those that are made of the same files share one graph and its weights."""

    def __init__(self, settings: Settings) -> None:
        """Take the server's options.

        Raises:
            LoadError: a file that they name cannot be used.
        """
        self._settings: Final = settings
        self._defaults: Final = settings.config_defaults()  # read once, so that all models agree
        self._graphs: Final = saved_model.SharedGraphs(equal=settings.share_equal_models)

    def load(self, name: str, version: int, directory: Path, config: ModelConfig) -> ModelVersion:
        """Load a version and warm it up.

        Args:
            name: the model's name.
            version: its number.
            directory: the version directory, or a SavedModel.
            config: as read from the model's config.pbtxt; empty when it has none.

        Raises:
            LoadError: the name is no UTF-8, the SavedModel is broken, the configuration does not fit it, or a file that
                it names cannot be read.
        """
        _check_name(name)
        _check_process(config, name)
        defaults = replace(self._defaults, devices=saved_model.devices())
        asked = optimizations(config, model=name)
        request = _Request(name, version, directory, config, _instances(config, name, defaults), asked)
        reference = self._reference(request, defaults) if asked.mixed_precision else None
        servable = self._load_servable(request, asked)
        with ExitStack() as undone_on_failure:
            undone_on_failure.callback(servable.close)
            if reference is None:
                with timed("probing the rows"):
                    completed, samples = _complete(config, servable, model_directory(directory), name, defaults)
            else:
                completed, samples = reference.completed, reference.samples
                log_differences(servable, reference.runs, model=name)
            servable.begin_compiled()
            labels = read_labels(completed, model_directory(directory), model=name)
            oversize = self._settings.oversize_requests
            loaded = ModelVersion(name, version, servable, completed, oversize=oversize, labels=labels)
            undone_on_failure.callback(loaded.scheduler.stop)
            warm_up(loaded, samples, self._settings.warm_up_timeout)
            undone_on_failure.pop_all()
        # Said once it is loaded, so that a load which is tried again and again does not repeat it.
        for field in ignored_fields(config):
            logger.warning("model '%s': the configuration's %s means nothing here and is ignored", name, field)
        return loaded

    def _load_servable(self, request: "_Request", optimizations: Optimizations) -> "SavedModelServable":
        config = request.config
        return saved_model.load(
            saved_model_directory(request.directory, config.default_model_filename or MODEL_FILENAME),
            model=request.name,
            version=request.version,
            tags=graph_tags(config),
            instances=request.instances,
            optimizations=optimizations,
            scan=self._settings.scan_models,
            graphs=self._graphs,
        )

    def _reference(self, request: "_Request", defaults: ConfigDefaults) -> "_Reference":
        """Load the version at full precision, look into it and let it go, so that there are never two copies."""
        servable = self._load_servable(request, replace(request.optimizations, mixed_precision=False))
        try:
            directory = model_directory(request.directory)
            completed, samples = _complete(request.config, servable, directory, request.name, defaults)
            return _Reference(completed, samples, reference_runs(servable, completed, samples, model=request.name))
        finally:
            servable.close()


@dataclass(frozen=True)
class _Request:
    """One load: what is loaded, where it is put and what may be done to it."""

    name: str
    version: int
    directory: Path
    config: ModelConfig
    instances: tuple[Instances, ...]
    optimizations: Optimizations


@dataclass(frozen=True)
class _Reference:
    """What is known of a version from itself at full precision."""

    completed: CompletedConfig
    samples: Mapping[str, Sequence[Sample]]
    runs: Sequence[ReferenceRun]


def _instances(config: ModelConfig, name: str, defaults: ConfigDefaults) -> tuple[Instances, ...]:
    """Return where a model is to be put, which must be known before the rest of its configuration can be completed."""
    groups = ModelConfig(name=name, instance_group=config.instance_group)
    complete_instance_groups(groups, defaults.devices, defaults.instance_count)
    return instances(groups.instance_group, defaults.devices)


def _complete(
    config: ModelConfig, servable: Servable, directory: Path, name: str, defaults: ConfigDefaults
) -> tuple[CompletedConfig, Mapping[str, Sequence[Sample]]]:
    """Complete the configuration from the servable's signatures, as the probe of their rows finds them.

    The probe may need samples, whose shapes only a completed configuration tells, so it is completed twice.
    """
    finish = partial(complete, config, model=name, unavailable=servable.unavailable, defaults=defaults)
    supposed = finish(signatures=servable.signatures)
    samples = read_samples(supposed, directory, model=name)
    rows = {
        key: distinct_rows(supposed.reshapings[key].to_model(sample.inputs) for sample in each)
        for key, each in samples.items()
        if supposed.max_batch_size(key)
    }
    return finish(signatures=probe_signatures(servable, model=name, rows=rows)), samples
