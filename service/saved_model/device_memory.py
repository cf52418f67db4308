"""The memory of devices: what TensorFlow may take of it, and what is said when it is not enough."""

from collections.abc import Mapping, Sequence

import tensorflow as tf

from service.devices import Device, DeviceKind
from service.errors import LoadError
from service.saved_model.options import RuntimeOptions

_MIB = 1 << 20


class DeviceMemoryError(LoadError):
    """A model does not fit into the memory that is left. To read it in another way would not help."""


def gpu_options(options: RuntimeOptions, gpus: Sequence[Device]) -> tf.compat.v1.GPUOptions:
    """Return what holds for all GPUs of the process; the first Session fixes it.

    Args:
        options: of the process.
        gpus: those that may be used.
    """
    config = tf.compat.v1.GPUOptions(
        allow_growth=True, visible_device_list=",".join(str(device.number) for device in gpus)
    )
    if options.gpu_memory_mib:
        for _ in gpus:
            config.experimental.virtual_devices.add(memory_limit_mb=[options.gpu_memory_mib])
    return config


def limit_eager_execution(options: RuntimeOptions, gpus: Sequence[Device]) -> None:
    """Let what TensorFlow does outside of Sessions keep to the same devices and limits; before it uses any GPU."""
    present = tf.config.list_physical_devices("GPU")
    if not present:
        return
    chosen = [present[device.number] for device in gpus]
    tf.config.set_visible_devices(chosen, "GPU")
    for gpu in chosen:
        if options.gpu_memory_mib:
            limit = tf.config.LogicalDeviceConfiguration(memory_limit=options.gpu_memory_mib)
            tf.config.set_logical_device_configuration(gpu, [limit])
        else:
            tf.config.experimental.set_memory_growth(gpu, enable=True)


def describe_gpu(device: Device, details: Mapping[str, object], limit_bytes: int) -> str:
    """Return what TensorFlow reports of a GPU, for the log.

    Args:
        device: the GPU.
        details: as ``tf.config.experimental.get_device_details`` has them.
        limit_bytes: how much memory TensorFlow may take of it.
    """
    name = details.get("device_name", "of unknown make")
    capability = details.get("compute_capability")
    version = f", compute capability {'.'.join(map(str, capability))}" if isinstance(capability, tuple) else ""
    return f"{device}: {name}{version}; TensorFlow may take up to {limit_bytes // _MIB} MiB, and takes them as needed"


def reported_gpus(session: tf.compat.v1.Session, devices: Sequence[Device]) -> list[str]:
    """Return a description of each GPU as a Session sees it."""
    limits = {each.name.rpartition("device:")[2]: each.memory_limit_bytes for each in session.list_devices()}
    present = tf.config.list_physical_devices("GPU")
    return [
        describe_gpu(
            device,
            tf.config.experimental.get_device_details(present[device.number]),
            limits.get(f"GPU:{device.index}", 0),
        )
        for device in devices
        if device.kind is DeviceKind.GPU
    ]
