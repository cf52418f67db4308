"""What TensorFlow itself answers for an export, to compare with; and inputs to ask it with."""

import math

import numpy as np
import tensorflow as tf

_BY_SESSION = {
    *("optimizer", "tf1_variables", "tf1_tables", "tf1_examples", "tensors", "assign_before_read"),
    *("tf1_control_flow", "tf1_partitioned", "tf1_main_op", "tf1_pipeline", "tf1_unready"),
}
"""Kinds that `tf.saved_model.load` cannot load, or not with their bare tensors."""

_WORDS = np.array([b"two", b"zero", b"no such word", b"a"], dtype=object)


def run_plain(kind, path, inputs_by_signature):
    """Run the signatures in the given order on a copy of the model of its own."""
    run = _run_session if kind in _BY_SESSION else _run_functions
    return run(path, inputs_by_signature)


def _run_functions(path, inputs_by_signature):
    signatures = tf.saved_model.load(str(path)).signatures
    answers = {}
    for name, inputs in inputs_by_signature.items():
        outputs = signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
        answers[name] = {key: _array(value.numpy()) for key, value in outputs.items()}
    return answers


def _run_session(path, inputs_by_signature):
    answers = {}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        for name, inputs in inputs_by_signature.items():
            signature = meta_graph.signature_def[name]
            feeds = {signature.inputs[key].name: value for key, value in inputs.items()}
            outputs = session.run({key: info.name for key, info in signature.outputs.items()}, feeds)
            answers[name] = {key: _array(value) for key, value in outputs.items()}
    return answers


def _array(value):
    return np.array(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)


def sample_inputs(signature):
    """Return an array for each input: 3 rows, values that differ from element to element."""
    return {spec.name: _sample(spec) for spec in signature.inputs}


def _sample(spec):
    shape = (2, 3) if spec.shape is None else tuple(size if size >= 0 else 3 for size in spec.shape)
    size = math.prod(shape)
    if spec.name in ("word", "key"):
        return np.resize(_WORDS, shape)
    if spec.name == "inputs":
        return _examples(size).reshape(shape)
    if spec.datatype.name == "BYTES":
        return np.array([b"row %d \0\xff\0" % number for number in range(size)], dtype=object).reshape(shape)
    return (np.arange(size) % 7).astype(spec.datatype.dtype).reshape(shape)


def _examples(rows):
    values = [np.arange(4, dtype=np.float32) + row for row in range(rows)]
    features = [tf.train.Feature(float_list=tf.train.FloatList(value=value)) for value in values]
    return np.array(
        [
            tf.train.Example(features=tf.train.Features(feature={"x": feature})).SerializeToString()
            for feature in features
        ],
        dtype=object,
    )


def assert_same(got, expected):
    """Assert that two answers are equal bit by bit, in names, types, shapes and values."""
    assert got.keys() == expected.keys()
    for name, array in expected.items():
        assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape), name
        if array.dtype == object:
            assert got[name].tolist() == array.tolist(), name
        else:
            assert got[name].tobytes() == array.tobytes(), name
