"""The test model `kit`: one SavedModel whose signatures cover what clients and the batcher must get right.

Every row is recognisable in its answer: column 0 of ``x`` is the row's id and comes back in column 0.
"""

from pathlib import Path

import tensorflow as tf

DTYPES = {
    "bool": tf.bool,
    "uint8": tf.uint8,
    "uint16": tf.uint16,
    "uint32": tf.uint32,
    "uint64": tf.uint64,
    "int8": tf.int8,
    "int16": tf.int16,
    "int32": tf.int32,
    "int64": tf.int64,
    "fp16": tf.float16,
    "fp32": tf.float32,
    "fp64": tf.float64,
    "bf16": tf.bfloat16,
    "bytes": tf.string,
}

FLOATS = tf.TensorSpec([None, 4], tf.float32, name="x")


class Kit(tf.Module):
    """The functions behind the signatures; ``embed`` and the default share no weights but one module."""

    def __init__(self):
        super().__init__(name="kit")
        self.projection = tf.Variable(tf.reshape(tf.range(32.0), [4, 8]), name="projection")

    def default(self, x):
        return {"y": x[:, :2] * 10.0}

    def embed(self, x):
        return {"z": tf.concat([x[:, :1], tf.matmul(x, self.projection)[:, 1:]], axis=1)}

    def wide(self, x):
        return {"y": tf.stack([x[:, 0], x[:, 5]], axis=1)}

    def tokens(self, ids):
        return {"total": tf.reduce_sum(ids, axis=1)}

    def text(self, text):
        return {"text": tf.identity(text)}

    def info(self):
        return {"build": tf.constant(b"kit 1")}

    def mean(self, x):
        return {"m": tf.reduce_mean(x)}

    def scale(self, x, k):
        return {"y": x * k}

    def filter(self, x):
        return {"kept": tf.boolean_mask(x, x[:, 0] > 0.0)}

    def picky(self, x):
        with tf.control_dependencies([tf.debugging.assert_non_negative(x, message="picky wants no negative value")]):
            return {"y": x[:, :2] * 10.0}

    def slow(self, x):
        """Sleep for the largest value of column 3, in milliseconds, then answer like the default."""
        zero = sleep(tf.cast(tf.reduce_max(x[:, 3]), tf.int64) * 1000)
        return {"y": x[:, :2] * 10.0 + tf.cast(zero, tf.float32)}

    def many(self, x):
        return {f"out_{number}": tf.stack([x[:, 0], x[:, 0] * 0.0 + number], axis=1) for number in range(1, 13)}

    def turn(self, t):
        return {"t": tf.transpose(t, [0, 2, 1])}

    def blow(self, n):
        return {"values": tf.cast(tf.range(n), tf.float32)}


def sleep(microseconds):
    """Sleep in the graph without using a CPU and return a zero to depend on.

    A dataset sleeps before each of its elements and before its end; the first of two elements is one sleep.
    """
    source = tf.data.experimental.to_variant(tf.data.Dataset.range(2))
    slow = tf.raw_ops.SleepDataset(
        input_dataset=source, sleep_microseconds=microseconds, output_types=[tf.int64], output_shapes=[[]]
    )
    dataset = tf.data.experimental.from_variant(slow, tf.TensorSpec([], tf.int64))
    return dataset.take(1).reduce(tf.constant(0, tf.int64), lambda total, element: total + element)


def export_kit(path: Path) -> Path:
    kit = Kit()
    signatures = {
        "serving_default": concrete(kit.default, FLOATS),
        "embed": concrete(kit.embed, FLOATS),
        "wide": concrete(kit.wide, tf.TensorSpec([None, 6], tf.float32, name="x")),
        "tokens": concrete(kit.tokens, tf.TensorSpec([None, None], tf.int64, name="ids")),
        "text": concrete(kit.text, tf.TensorSpec([None], tf.string, name="text")),
        "text0": concrete(kit.text, tf.TensorSpec([], tf.string, name="text")),
        "info": concrete(kit.info),
        "mean": concrete(kit.mean, FLOATS),
        "scale": concrete(kit.scale, FLOATS, tf.TensorSpec([], tf.float32, name="k")),
        "filter": concrete(kit.filter, FLOATS),
        "picky": concrete(kit.picky, FLOATS),
        "slow": concrete(kit.slow, FLOATS),
        "many": concrete(kit.many, FLOATS),
        "turn": concrete(kit.turn, tf.TensorSpec([None, 3, 5], tf.float32, name="t")),
        "blow": concrete(kit.blow, tf.TensorSpec([], tf.int32, name="n")),
        **{f"id_{name}": _identity(dtype) for name, dtype in DTYPES.items()},
    }
    tf.saved_model.save(kit, str(path), signatures=signatures)
    return path


def concrete(function, *specs):
    """Trace a function for these inputs."""
    return tf.function(function).get_concrete_function(*specs)


def _identity(dtype):
    return concrete(lambda v: {"v": tf.identity(v)}, tf.TensorSpec([None], dtype, name="v"))
