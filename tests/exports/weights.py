"""SavedModels whose size is chosen: eight signatures over the same weights."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.exports.kit import concrete, sleep

SIGNATURES = 8
_COLUMNS = 1024


def export_weights(path: Path, megabytes: int, *, as_constants: bool, signatures: int = SIGNATURES) -> Path:
    """Signatures ``s0``, ``s1``, ... read one matrix of this size, held as a variable or captured as a constant."""
    rows = megabytes * 1_000_000 // (4 * _COLUMNS)
    matrix = tf.constant(np.random.default_rng(1).random((rows, _COLUMNS), np.float32))
    module = tf.Module()
    module.weights = matrix if as_constants else tf.Variable(matrix)
    row = tf.TensorSpec([None], tf.int32, name="row")

    def signature(number):
        return concrete(lambda row: {"y": tf.gather(module.weights, row) * float(number + 1)}, row)

    tf.saved_model.save(module, str(path), signatures={f"s{number}": signature(number) for number in range(signatures)})
    return path


def export_numbered(path: Path, number: int, megabytes: int) -> Path:
    """Eight signatures that answer, each row twice and from two variables, with one number; two of them take 20 ms."""
    rows = megabytes * 1_000_000 // (4 * _COLUMNS)
    module = tf.Module()
    module.weights = tf.Variable(tf.fill([rows, _COLUMNS], float(number)))
    module.number = tf.Variable(float(number))
    row = tf.TensorSpec([None], tf.int32, name="row")

    def answer(row):
        return {
            "of_weights": tf.gather(module.weights, row)[:, 0],
            "of_scalar": tf.zeros_like(row, tf.float32) + module.number,
        }

    def answer_late(row):
        late = tf.cast(sleep(tf.constant(20_000, tf.int64)), tf.float32)
        return {name: value + late for name, value in answer(row).items()}

    functions = [answer] * (SIGNATURES - 2) + [answer_late] * 2
    signatures = {f"s{index}": concrete(function, row) for index, function in enumerate(functions)}
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def export_weights_4_mb_variables(path: Path) -> Path:
    return export_weights(path, 4, as_constants=False)


def export_weights_4_mb_constants(path: Path) -> Path:
    return export_weights(path, 4, as_constants=True)
