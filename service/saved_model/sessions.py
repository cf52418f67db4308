"""TensorFlow's process-wide state in line with the settings: op libraries, log level, the Sessions' threads."""

import threading

import tensorflow as tf

from service.devices import CPU, Device, DeviceKind
from service.errors import LoadError
from service.saved_model.memory import freeze_objects
from service.saved_model.model_errors import shorten
from service.saved_model.process import chosen

_lock = threading.Lock()
_loaded: list[bool] = []


def prepare_tensorflow() -> None:
    """Apply the settings that need TensorFlow; the first call does it.

    Raises:
        LoadError: an op library cannot be loaded.
    """
    with _lock:
        if _loaded:
            return
        options = chosen()
        tf.get_logger().setLevel(options.log_level)
        for library in options.op_libraries:
            try:
                tf.load_op_library(str(library))
            except (tf.errors.OpError, OSError) as error:
                raise LoadError(f"{library}: the op library cannot be loaded: {shorten(str(error))}") from error
        freeze_objects()
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


def session_config(device: Device | None) -> tf.compat.v1.ConfigProto:
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
        config.gpu_options.CopyFrom(_gpu_options())
    return config


def _gpu_options() -> tf.compat.v1.GPUOptions:
    """Return what holds for all GPUs of the process; the first Session that has one fixes it."""
    visible = ",".join(str(number) for number in chosen().device.numbers)
    return tf.compat.v1.GPUOptions(allow_growth=True, visible_device_list=visible)
