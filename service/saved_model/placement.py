"""Putting a graph on one device."""

from contextlib import AbstractContextManager, nullcontext

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef
from tensorflow.core.framework.node_def_pb2 import NodeDef

from service.devices import CPU, Device


def placed(device: Device | None) -> AbstractContextManager[None]:
    """Return a context in which new nodes without a device of their own go to this one.

    What a device has no kernel for (strings and tables on a GPU) goes to the CPU all the same. The first CPU is where
    TensorFlow puts everything anyway.
    """
    if device is None or device == CPU:
        return nullcontext()
    scope: AbstractContextManager[None] = tf.device(device.placement)
    return scope


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
