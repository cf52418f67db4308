"""Joining the inputs of tasks into one array each, and dividing the outputs of a run among the tasks again.

The only file of the package that needs NumPy. Axis 0 is the batch dimension everywhere.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from batching.errors import RowsMismatchError

if TYPE_CHECKING:
    from batching.task import Task

Arrays = Mapping[str, np.ndarray]
"""An array per input or output name."""


def join_rows(parts: Sequence[Arrays], padding: int = 0) -> Arrays:
    """Join several tasks' inputs, or the outputs of one task's parts, along the batch dimension.

    Args:
        parts: k >= 1 mappings with the same names; array ``n`` of part i has shape [b_i, d_1, ..., d_r], with the same
            dtype and the same d in all parts.
        padding: rows to be added; if any, the first part has at least one row.

    Returns:
        For each name one array of shape [b_1 + ... + b_k + padding, d_1, ..., d_r], rows in the order of the parts,
        then the first row again and again, which is valid for every model. Every array is copied once; a single part
        without padding is returned as it is.

    Raises:
        KeyError: the names of the parts differ.
        ValueError: the inner shapes of the parts differ.

    Source: padding with a row of the first task as in TensorFlow Serving, batching_session.cc, MergeInputTensors.
    """
    first = parts[0]
    if len(parts) == 1 and padding == 0:
        return first
    joined = {}
    for name, head in first.items():
        arrays = [part[name] for part in parts]
        if padding:
            arrays.append(np.broadcast_to(head[:1], (padding, *head.shape[1:])))
        joined[name] = np.concatenate(arrays)
    return joined


def check_rows(outputs: Arrays, size: int) -> None:
    """Make sure that every output can be divided by rows.

    Raises:
        RowsMismatchError: an output has no axis 0, or one of another size than ``size``. The text names the output.
    """
    for name, array in outputs.items():
        if array.shape[:1] != (size,):
            shape = list(array.shape)
            raise RowsMismatchError(f"output '{name}' of a run on {size} rows has the shape {shape}")


def split_rows(outputs: Arrays, tasks: "Sequence[Task]") -> list[dict[str, np.ndarray]]:
    """Cut each task's rows out of the outputs of a joint run.

    Args:
        outputs: arrays of shape [B, ...].
        tasks: in the order in which their rows were joined; together they have at most B rows.

    Returns:
        For each task its wanted outputs by name: views of shape [task.size, ...].
    """
    answers = []
    start = 0
    for task in tasks:
        stop = start + task.size
        answers.append({name: outputs[name][start:stop] for name in task.outputs})
        start = stop
    return answers


def slice_rows(inputs: Arrays, start: int, stop: int) -> dict[str, np.ndarray]:
    """Take rows ``start`` to ``stop`` of every array, as views."""
    return {name: array[start:stop] for name, array in inputs.items()}
