"""TensorFlow's process-wide state in line with the settings: op libraries, log level, the Sessions' threads."""

import logging
import threading

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from service.devices import CPU, Device, DeviceKind
from service.errors import LoadError
from service.glibc import keep_freed_memory
from service.optimizations import Optimizations, Xla
from service.plain_files import refuse_other_than_file
from service.saved_model.device_memory import gpu_options, limit_eager_execution, reported_gpus
from service.saved_model.memory import freeze_objects
from service.saved_model.model_errors import shorten
from service.saved_model.process import chosen

_lock = threading.Lock()
_loaded: list[bool] = []
_reported: list[bool] = []

logger = logging.getLogger(__name__)


def prepare_tensorflow() -> None:
    """Apply the settings that need TensorFlow; the first call does it.

    Raises:
        LoadError: an op library cannot be loaded or is no file, or the chosen devices are not there.
    """
    with _lock:
        if _loaded:
            return
        options = chosen()
        tf.get_logger().setLevel(options.log_level)
        limit_eager_execution(options, available_gpus())
        for library in options.op_libraries:
            refuse_other_than_file(library, "the op library ")
            try:
                tf.load_op_library(str(library))
            except (tf.errors.OpError, OSError) as error:
                raise LoadError(f"{library}: the op library cannot be loaded: {shorten(str(error))}") from error
        freeze_objects()
        keep_freed_memory()
        _loaded.append(True)


def available_devices() -> tuple[Device, ...]:
    """Return the devices that models may be put on.

    Raises:
        LoadError: the chosen ones are not there.
    """
    choice = chosen().device
    if choice.kind is DeviceKind.CPU:
        return choice.cpus()
    present = len(tf.config.list_physical_devices("GPU"))
    if choice.kind is None and not present:
        return (CPU,)
    try:
        return choice.gpus(present)
    except ValueError as error:
        raise LoadError(f"--device {choice}: {error}") from error


def available_gpus() -> list[Device]:
    """Return those of the devices that are GPUs."""
    return [device for device in available_devices() if device.kind is DeviceKind.GPU]


def new_session(graph: tf.Graph, device: Device | None, optimizations: Optimizations) -> tf.compat.v1.Session:
    """Open a Session on a graph that lies on a device; the first that may use GPUs logs what it finds."""
    session = tf.compat.v1.Session(graph=graph, config=session_config(device, optimizations))
    with _lock:
        is_first = not _reported and (device is None or device.kind is DeviceKind.GPU)
        if is_first:
            _reported.append(True)
    if is_first:
        for line in reported_gpus(session, available_gpus()):
            logger.info("%s", line)
    return session


def session_config(device: Device | None, optimizations: Optimizations | None = None) -> tf.compat.v1.ConfigProto:
    """Return the configuration of a Session whose graph lies on a device, None for wherever the graph says."""
    options = chosen()
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=options.intra_op_threads,
        inter_op_parallelism_threads=options.inter_op_threads,
        allow_soft_placement=True,
    )
    if device is not None and device.kind is DeviceKind.CPU:
        config.device_count["CPU"] = device.index + 1
        config.device_count["GPU"] = 0
    else:
        config.gpu_options.CopyFrom(gpu_options(options, available_gpus()))
    if optimizations is not None:
        _optimize(config, optimizations, device)
    return config


def _optimize(config: tf.compat.v1.ConfigProto, optimizations: Optimizations, device: Device | None) -> None:
    if optimizations.xla is Xla.AUTO:
        config.graph_options.optimizer_options.global_jit_level = tf.compat.v1.OptimizerOptions.ON_1
    if optimizations.mixed_precision:
        rewrites = config.graph_options.rewrite_options
        if device is not None and device.kind is DeviceKind.CPU:
            rewrites.auto_mixed_precision_onednn_bfloat16 = RewriterConfig.ON
        else:
            rewrites.auto_mixed_precision = RewriterConfig.ON
