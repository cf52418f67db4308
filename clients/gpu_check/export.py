"""Makes the models of the checks, and what plain TensorFlow on the CPU answers for one of them.

It runs in a process of its own, which must see no GPU: the server's is to be the only one that takes memory there.
"""

import argparse
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf

from clients.gpu_check.plan import BLOCK_PARTS, BLOCK_VALUE, CLASSES, ROWS, WORDS

_SEED: Final = 1
_BUSY_PRODUCTS: Final = 8
_NOT_SAVED: Final = "state"
"""A collection of variables that no checkpoint holds."""
v1: Final = tf.compat.v1


def main() -> None:
    """Write all exports and ``answers.npz`` into a directory."""
    parser = argparse.ArgumentParser(prog="python -m clients.gpu_check.export", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--width", type=int, required=True)
    parser.add_argument("--block-mib", type=int, required=True)
    parser.add_argument("--too-large-mib", type=int, required=True)
    options = parser.parse_args()
    tf.get_logger().setLevel("ERROR")  # it warns of functions that have no newer form
    network = Network(options.width)
    tf.saved_model.save(network, str(options.directory / "network"), signatures=network.signatures())
    np.savez(options.directory / "answers.npz", **network.answers())
    export_block(options.directory / "block", options.block_mib, BLOCK_PARTS)
    export_block(options.directory / "too_large", options.too_large_mib, 1)
    export_meeting(options.directory / "meeting")


class Network(tf.Module):  # type: ignore[misc]  # TensorFlow publishes no types
    """Signatures of every sort: products, strings, a table, a counter that is written, and many products in a row."""

    def __init__(self, width: int) -> None:
        super().__init__()
        random = np.random.default_rng(_SEED)
        self._width = width
        self._hidden = tf.Variable(_weights(random, width, width))
        self._last = tf.Variable(_weights(random, width, CLASSES))
        self._count = tf.Variable(0, dtype=tf.int64)
        self._names = tf.constant([b"class %d" % number for number in range(CLASSES)])
        numbers = tf.lookup.KeyValueTensorInitializer(tf.constant(WORDS), tf.range(len(WORDS), dtype=tf.int64))
        self._words = tf.lookup.StaticHashTable(numbers, default_value=-1)

    def signatures(self) -> dict[str, Any]:
        """Return the functions by signature."""
        x = tf.TensorSpec([None, self._width], tf.float32, name="x")
        word = tf.TensorSpec([None], tf.string, name="word")
        return {
            "scores": _concrete(self._scores, x),
            "embedding": _concrete(self._embedding, x),
            "class": _concrete(self._class, x),
            "word": _concrete(self._word, word),
            "count": _concrete(self._counted),
            "busy": _concrete(self._busy, x),
        }

    def answers(self) -> dict[str, Any]:
        """Return inputs by name and, as SIGNATURE.OUTPUT, what the signatures answer."""
        x = np.random.default_rng(_SEED + 1).normal(size=(ROWS, self._width)).astype(np.float32)
        word = np.array([WORDS[row % len(WORDS)] if row % 4 else b"no such word" for row in range(ROWS)])
        results = {
            "scores": self._scores(x),
            "embedding": self._embedding(x),
            "class": self._class(x),
            "word": self._word(tf.constant(word)),
        }
        named = {f"{key}.{name}": each.numpy() for key, result in results.items() for name, each in result.items()}
        return {"x": x, "word": word} | {
            name: array.astype(bytes) if array.dtype == object else array for name, array in named.items()
        }

    def _scores(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": tf.nn.relu(x @ self._hidden) @ self._last}

    def _embedding(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"z": tf.math.l2_normalize(tf.tanh(x @ self._hidden), axis=1)}

    def _class(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        """Name the largest column, which no rounding changes."""
        return {"name": tf.gather(self._names, tf.argmax(x[:, :CLASSES], axis=1))}

    def _word(self, word: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"number": self._words.lookup(word)}

    def _counted(self) -> dict[str, tf.Tensor]:
        return {"count": self._count.assign_add(1)}

    def _busy(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        for _ in range(_BUSY_PRODUCTS):
            x = tf.tanh(x @ self._hidden)
        return {"y": x}


def export_block(path: Path, mib: int, parts: int) -> None:
    """Write a model whose state is so large but made at its load, so that the export is not.

    It is full of one number, which is drawn from a range of one, or TensorFlow would make the state before it runs.
    """
    with v1.Graph().as_default(), v1.Session() as session:
        shape = [mib, 2**18]
        filled = tf.fill(shape, tf.cast(tf.random.uniform([], BLOCK_VALUE, BLOCK_VALUE + 1, tf.int32), tf.float32))
        state = v1.get_variable(
            "state", shape, initializer=tf.zeros_initializer(), use_resource=True, collections=[_NOT_SAVED]
        )
        x = v1.placeholder(tf.float32, [None], name="x")
        signatures = {f"part_{number}": _signature({"x": x}, {"y": x + state[0, number]}) for number in range(parts)}
        _save(session, path, signatures, state.assign(filled).op)


def export_meeting(path: Path) -> None:
    """Write a model with two signatures of which each gives the other what it waits for, so that neither ends alone."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], name="x")
        queues = [tf.queue.FIFOQueue(4, tf.float32, [], shared_name=name) for name in ("left", "right")]
        signatures = {}
        for name, (mine, other) in (("left", queues), ("right", queues[::-1])):
            with tf.control_dependencies([other.enqueue(x)]):
                signatures[name] = _signature({"x": x}, {"y": mine.dequeue()})
        _save(session, path, signatures, tf.no_op())


def _weights(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return np.asarray(random.normal(size=(rows, columns)) / rows**0.5, np.float32)


def _concrete(function: Any, *specs: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=list(specs)).get_concrete_function()


def _signature(inputs: dict[str, tf.Tensor], outputs: dict[str, tf.Tensor]) -> Any:
    build = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {name: build(tensor) for name, tensor in inputs.items()},
        {name: build(tensor) for name, tensor in outputs.items()},
        "tensorflow/serving/predict",
    )


def _save(session: Any, path: Path, signatures: dict[str, Any], main_op: tf.Operation) -> None:
    builder = v1.saved_model.Builder(str(path))
    builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map=signatures, main_op=main_op)
    builder.save()


if __name__ == "__main__":
    main()
