"""SavedModels of plain ``tf.Module``s: usual ones, and one for each peculiarity that load-time analysis must see."""

from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.exports.kit import FLOATS, concrete

LARGE = 80_000
"""Floats in a constant that counts as large: 320 kB. A quarter of them, a row of the matrix, is above 64 KiB too."""


def export_module(path: Path) -> Path:
    """Variables, a scalar output, a signature without inputs, an unknown rank."""
    module = tf.Module()
    module.weights = tf.Variable(tf.reshape(tf.range(12.0), [4, 3]), name="weights")
    module.threshold = tf.Variable(0.25, name="threshold")
    scalar = tf.TensorSpec([], tf.float32, name="a")
    any_shape = tf.TensorSpec(None, tf.float32, name="v")
    return _save(
        module,
        path,
        serving_default=concrete(lambda x: {"y": tf.matmul(x, module.weights)}, FLOATS),
        threshold=concrete(lambda: {"threshold": module.threshold.read_value()}),
        add=concrete(lambda a, b: {"sum": a + b}, scalar, tf.TensorSpec([], tf.float32, name="b")),
        any_rank=concrete(lambda v: {"v": v * 2.0, "rank": tf.rank(v)}, any_shape),
    )


def export_several(path: Path) -> Path:
    """Several signatures, none of them the default; hidden ones beside them; a table and an asset."""
    vocabulary = path.parent / "vocabulary.txt"
    vocabulary.parent.mkdir(parents=True, exist_ok=True)
    vocabulary.write_text("zero\none\ntwo\n")
    module = tf.Module()
    module.table = tf.lookup.StaticVocabularyTable(
        tf.lookup.TextFileInitializer(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        ),
        num_oov_buckets=1,
    )
    words = tf.TensorSpec([None], tf.string, name="word")
    _save(
        module,
        path,
        find=concrete(lambda word: {"id": module.table.lookup(word)}, words),
        length=concrete(lambda word: {"length": tf.strings.length(word)}, words),
        train_op=concrete(lambda word: {"loss": tf.strings.length(word)}, words),
    )
    vocabulary.unlink()  # the export has its own copy
    return path


def export_captured_constants(path: Path) -> Path:
    """Two signatures over one large captured tensor, and one large constant in a function that both call."""
    captured = tf.reshape(tf.range(float(LARGE)), [4, LARGE // 4])
    inner = tf.function(lambda x: x + np.arange(LARGE // 4, dtype=np.float32))
    looped = tf.function(lambda x: tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, inner(v)), [0, x])[1])
    return _save(
        tf.Module(),
        path,
        first=concrete(lambda x: {"y": tf.matmul(x, captured), "z": inner(tf.matmul(x, captured))}, FLOATS),
        second=concrete(lambda x: {"y": looped(tf.matmul(x, captured) * 2.0)}, FLOATS),
        small=concrete(lambda x: {"y": x + tf.constant([1.0, 2.0, 3.0, 4.0])}, FLOATS),
    )


def export_compiled_constants(path: Path) -> Path:
    """A large constant inside a function that XLA compiles, which cannot become a variable."""
    compiled = tf.function(lambda x: x + np.arange(LARGE, dtype=np.float32), jit_compile=True)
    scalar = tf.TensorSpec([], tf.float32, name="x")
    return _save(
        tf.Module(),
        path,
        first=concrete(lambda x: {"y": compiled(x)}, scalar),
        second=concrete(lambda x: {"y": compiled(x) * 2.0}, scalar),
    )


def export_deep(path: Path) -> Path:
    """A chain of 2,000 calls that TensorFlow does not inline; run inline it overflows the stack."""
    step = tf.function(lambda x: x + 1.0, experimental_attributes={"_noinline": True})

    def chain(x):
        for _ in range(2000):
            x = step(x)
        return {"y": x}

    return _save(
        tf.Module(), path, serving_default=concrete(chain, FLOATS), one=concrete(lambda x: {"y": step(x)}, FLOATS)
    )


def export_counter(path: Path) -> Path:
    """A signature without inputs that increments, and one that reads."""
    module = tf.Module()
    module.count = tf.Variable(0, dtype=tf.int64, name="count")
    return _save(
        module,
        path,
        increment=concrete(lambda: {"count": module.count.assign_add(1)}),
        read=concrete(lambda: {"count": module.count.read_value()}),
        store=concrete(_store(module), tf.TensorSpec([None], tf.float32, name="value")),
        recall=concrete(lambda: {"value": module.stored.read_value()}),
    )


def export_random(path: Path) -> Path:
    """Random numbers by an op, by a generator (whose position is a variable), and from a seed that is given."""
    module = tf.Module()
    module.generator = tf.random.Generator.from_seed(1)
    seed = tf.TensorSpec([2], tf.int32, name="seed")
    return _save(
        module,
        path,
        op=concrete(lambda x: {"y": x + tf.random.uniform(tf.shape(x))}, FLOATS),
        generator=concrete(lambda x: {"y": x + module.generator.uniform(tf.shape(x))}, FLOATS),
        stateless=concrete(lambda seed: {"y": tf.random.stateless_uniform([3], seed)}, seed),
    )


def export_default_value(path: Path) -> Path:
    """An input that has a default value, which TensorFlow writes down when it is a tensor."""
    default = tf.constant(3.0)

    @tf.function(input_signature=[FLOATS, tf.TensorSpec([], tf.float32, name="k")])
    def scale(x, k=default):
        return {"y": x * k}

    return _save(tf.Module(), path, serving_default=scale)


def export_odd_names(path: Path) -> Path:
    """Signatures with names that are no identifiers, and tensors whose names requests use for other things."""
    names = ("a b", "a/b", "a:b", "..", "\u00fc", "%s{0}", "line\nbreak")
    numbers = {name: float(number) for number, name in enumerate(names)}
    signatures = {name: concrete(lambda x, number=n: {"y": x + number}, FLOATS) for name, n in numbers.items()}
    signature = tf.TensorSpec([None, 4], tf.float32, name="signature")
    signatures["tensors"] = concrete(lambda signature: {"parameters": signature, "id": signature * 2.0}, signature)
    return _save(tf.Module(), path, **signatures)


def export_effects(path: Path) -> Path:
    """One signature for each effect that is easily mistaken."""
    module = tf.Module()
    module.static = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    module.mutable = tf.lookup.experimental.MutableHashTable(tf.string, tf.int32, default_value=-1)
    module.weights = tf.Variable(tf.ones([4]))
    keys = tf.TensorSpec([None], tf.string, name="key")

    def remember(key):
        module.mutable.insert(key, tf.strings.length(key))
        return {"size": module.mutable.size()}

    def branch(x):
        if tf.reduce_sum(x) > 0.0:
            tf.print("positive", output_stream="file:///dev/null")
            return {"y": x * module.weights}
        return {"y": x - module.weights}

    def write_file(key):
        tf.io.write_file("/dev/null", key[0])
        return {"key": key}

    def python(x):
        return {"y": tf.ensure_shape(tf.py_function(lambda v: v, [x], tf.float32), [None, 4])}

    return _save(
        module,
        path,
        find=concrete(lambda key: {"value": module.static.lookup(key)}, keys),
        recall=concrete(lambda key: {"value": module.mutable.lookup(key)}, keys),
        remember=concrete(remember, keys),
        branch=concrete(branch, FLOATS),
        write_file=concrete(write_file, keys),
        python=concrete(python, FLOATS),
        shuffle=concrete(lambda x: {"y": tf.random.shuffle(x)}, FLOATS),
    )


def _store(module):
    module.stored = tf.Variable(tf.zeros([0]), shape=[None], name="stored")
    return lambda value: {"rows": tf.size(module.stored.assign(value))}


def _save(module: tf.Module, path: Path, **signatures) -> Path:
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path
