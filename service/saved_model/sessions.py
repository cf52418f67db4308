"""TensorFlow's process-wide state in line with the settings: op libraries, log level, the Sessions' threads."""

import threading

import tensorflow as tf

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


def devices() -> list[str]:
    """Return the devices that Sessions can use, such as ``CPU:0``."""
    return [device.name.partition("device:")[2] for device in tf.config.list_physical_devices()]


def session_config() -> tf.compat.v1.ConfigProto:
    """Return the configuration of every Session."""
    options = chosen()
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=options.intra_op_threads,
        inter_op_parallelism_threads=options.inter_op_threads,
        allow_soft_placement=True,
    )
