"""Putting a graph on one device."""

from contextlib import AbstractContextManager, nullcontext

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.devices import CPU, Device, DeviceKind


def placed(device: Device | None) -> AbstractContextManager[None]:
    """Return a context in which new nodes without a device of their own go to this one.

    What a device has no kernel for (strings and tables on a GPU) goes to the CPU all the same. The first CPU is where
    TensorFlow puts everything anyway.
    """
    if device is None or device == CPU:
        return nullcontext()
    scope: AbstractContextManager[None] = tf.device(device.placement)
    return scope


def keeps_to_one_thread(device: Device | None) -> bool:
    """Whether a run of a graph there may be left to the thread that asks for it.

    When a copy to or from a GPU has ended, TensorFlow calls what waits for it in one of few threads that belong to the
    device, and says that such calls must be brief. A run that knows no other thread would go on there, op by op, and
    the copies of other runs would wait for it. A graph that places itself may use a GPU, too.

    Source: TensorFlow, common_runtime/device/device_event_mgr.h, ``EventMgr::ThenExecute``.
    """
    return device is not None and device.kind is DeviceKind.CPU


def forget_gpus(graph: GraphDef) -> None:
    """Take out the GPUs that an export names for single nodes: they are those of the machine that trained the model."""
    for node in graph.node:
        _forget_gpu(node)
    for function in graph.library.function:
        for node in function.node_def:
            _forget_gpu(node)


def _forget_gpu(node: NodeDef) -> None:
    if "GPU:" in node.device.upper():
        node.device = ""
