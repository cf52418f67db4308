"""SavedModels for the fault suite: what fails for some rows, and what tells on disk that it was run."""

from pathlib import Path

import tensorflow as tf

from tests.exports.kit import FLOATS, concrete

TABLE_ROWS = 10


def export_faults(path: Path) -> Path:
    """Signatures that fail for some rows, and one that hangs.

    ``lookup`` knows the ids 0 to 9, ``logarithm`` of what is negative is no number, and ``hold`` waits until somebody
    writes to the named pipe whose path it gets.
    """
    module = tf.Module()
    module.table = tf.Variable(tf.reshape(tf.range(TABLE_ROWS * 4.0), [TABLE_ROWS, 4]), name="table")
    signatures = {
        "lookup": concrete(
            lambda ids: {"row": tf.gather(module.table, ids)}, tf.TensorSpec([None], tf.int64, name="ids")
        ),
        "hold": concrete(
            lambda path: {"size": tf.strings.length(tf.io.read_file(path))}, tf.TensorSpec([], tf.string, name="path")
        ),
        "logarithm": concrete(lambda x: {"y": tf.math.log(x)}, FLOATS),
    }
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def export_notes(path: Path) -> Path:
    """Its signature writes the ids of every run, a line each, to the file beside the SavedModel that has its name."""
    file = path.with_suffix(".txt")

    def note(ids):
        lines = tf.strings.reduce_join(tf.strings.as_string(ids), separator="\n")
        with tf.control_dependencies([tf.print(lines, output_stream=f"file://{file}")]):
            return {"ids": tf.identity(ids)}

    signatures = {"serving_default": concrete(note, tf.TensorSpec([None], tf.int64, name="ids"))}
    tf.saved_model.save(tf.Module(), str(path), signatures=signatures)
    return path
