"""Joining the inputs of tasks into one array each, and dividing the outputs of a run among the tasks again.

The only file of the package that needs NumPy. Axis 0 is the batch dimension everywhere.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from batching.errors import RowsMismatchError

if TYPE_CHECKING:
    from batching.options import FillValue
    from batching.task import Task

Arrays = Mapping[str, np.ndarray]
"""An array per input or output name."""

_NO_FILL: Mapping[str, "FillValue"] = MappingProxyType({})


def join_rows(parts: Sequence[Arrays], padding: int = 0, fill: Mapping[str, "FillValue"] = _NO_FILL) -> Arrays:
    """Join several tasks' inputs, or the outputs of one task's parts, along the batch dimension.

    Args:
        parts: k >= 1 mappings with the same names; array ``n`` of part i has shape [b_i, d_1, ..., d_r], with the same
            dtype and the same d in all parts.
        padding: rows to be added; if any, the first part has at least one row.
        fill: for the names whose inner sizes may differ the value that shorter rows are filled up with at the end of
            each axis; every d is then the largest of all parts.

    Returns:
        For each name one array of shape [b_1 + ... + b_k + padding, d_1, ..., d_r], rows in the order of the parts,
        then the first row again and again, which is valid for every model. Every array is copied once; a single part
        without padding is returned as it is.

    Raises:
        KeyError: a part lacks a name of the first.
        ValueError: the inner shapes of the parts differ and must not.

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
        is_ragged = name in fill and any(array.shape[1:] != head.shape[1:] for array in arrays)
        joined[name] = _fill_up(arrays, fill[name]) if is_ragged else np.concatenate(arrays)
    return joined


def trim_outputs(answers: Sequence[dict[str, np.ndarray]], tasks: "Sequence[Task]", trimmed: Mapping[str, str]) -> None:
    """Cut the outputs of a joint run back to the inner sizes of each task's own input.

    An axis of an output is cut if it has the size to which the input was filled up on the same axis; any other axis
    does not follow the input and stays.

    Args:
        answers: the outputs of each task, of shape [b_i, ...]; changed in place.
        tasks: the tasks that ran together.
        trimmed: the name of the input that an output follows, by the output's name.
    """
    for output, followed in trimmed.items():
        if followed not in tasks[0].inputs:  # it is optional and these tasks have left it out
            continue
        filled = _largest([task.inputs[followed] for task in tasks])
        for answer, task in zip(answers, tasks, strict=True):
            if output in answer:
                answer[output] = _trim(answer[output], filled, task.inputs[followed].shape[1:])


def _trim(array: np.ndarray, filled: tuple[int, ...], own: tuple[int, ...]) -> np.ndarray:
    cuts = [slice(size if had == wide else None) for had, wide, size in zip(array.shape[1:], filled, own, strict=False)]
    return array[(slice(None), *cuts)]


def _fill_up(arrays: Sequence[np.ndarray], value: "FillValue") -> np.ndarray:
    """Join arrays of shape [b_i, ...] with different inner sizes along axis 0; ValueError if their ranks differ."""
    size = sum(len(array) for array in arrays)
    joined = np.full((size, *_largest(arrays)), value, arrays[0].dtype)
    start = 0
    for array in arrays:
        stop = start + len(array)
        joined[(slice(start, stop), *map(slice, array.shape[1:]))] = array
        start = stop
    return joined


def _largest(arrays: Sequence[np.ndarray]) -> tuple[int, ...]:
    return tuple(max(sizes) for sizes in zip(*(array.shape[1:] for array in arrays), strict=True))


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
