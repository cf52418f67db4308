"""Large constants that several callables reach become variables; all else stays as it is."""

import numpy as np
import pytest
import tensorflow as tf

from service.datatypes import DATATYPES
from service.saved_model.constants import LARGE, share_constants
from service.saved_model.signature_defs import BoundSignature
from service.signature import Signature, TensorSpec

BIG = np.arange(LARGE // 4 + 1, dtype=np.float32)
"""One element above the limit."""


def share(build):
    """Share the constants of a graph; ``build`` returns the outputs of each signature."""
    with tf.Graph().as_default() as graph:
        signatures = {name: bound(name, outputs) for name, outputs in build().items()}
        definition = graph.as_graph_def()
    return share_constants(definition, signatures), definition, signatures


def bound(name, outputs):
    specs = tuple(TensorSpec(f"out_{number}", DATATYPES["FP32"], None) for number in range(len(outputs)))
    tensors = {spec.name: tensor.name for spec, tensor in zip(specs, outputs, strict=True)}
    return BoundSignature(Signature(name, (), specs), {}, tensors, {})


def run(sharing, definition, signatures):
    """Import the changed graph, assign the variables and return every output."""
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(definition, name="")
        for constant in sharing.constants:
            dtype = tf.string if constant.value.dtype == object else constant.value.dtype
            handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=constant.value.shape, shared_name=constant.shared_name)
            session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=constant.value))
        names = [tensor for signature in signatures.values() for tensor in signature.outputs.values()]
        return session.run([graph.get_tensor_by_name(name) for name in names])


def test_a_constant_of_two_signatures_becomes_a_variable():
    def build():
        big = tf.constant(BIG)
        return {"one": [big * 1.0], "two": [big * 2.0]}

    sharing, definition, signatures = share(build)

    assert [constant.value.tobytes() for constant in sharing.constants] == [BIG.tobytes()]
    assert not [node for node in definition.node if node.op == "Const" and node.ByteSize() > LARGE]
    assert [value.tobytes() for value in run(sharing, definition, signatures)] == [BIG.tobytes(), (BIG * 2).tobytes()]


def test_a_constant_of_two_outputs_becomes_a_variable():
    def build():
        big = tf.constant(BIG)
        return {"one": [big * 1.0, big * 2.0]}

    assert len(share(build)[0].constants) == 1


def test_a_constant_of_one_callable_stays():
    sharing, definition, _ = share(lambda: {"one": [tf.constant(BIG) * 1.0], "two": [tf.constant(1.0) * 2.0]})

    assert sharing.constants == ()
    assert [node for node in definition.node if node.op == "Const" and node.ByteSize() > LARGE]


def test_a_constant_of_exactly_the_limit_stays():
    def build():
        limit = tf.constant(BIG[:-1])
        return {"one": [limit * 1.0], "two": [limit * 2.0]}

    assert share(build)[0].constants == ()


def test_equal_constants_share_one_variable():
    sharing, definition, signatures = share(
        lambda: {"one": [tf.constant(BIG) * 1.0], "two": [tf.constant(BIG) * 2.0], "three": [tf.constant(-BIG) * 3.0]}
    )

    assert len(sharing.constants) == 1
    expected = [BIG, BIG * 2, BIG * -3]
    assert [value.tobytes() for value in run(sharing, definition, signatures)] == [one.tobytes() for one in expected]


def test_a_constant_that_nothing_served_reaches_stays():
    def build():
        tf.constant(BIG)
        return {"one": [tf.constant(1.0)]}

    assert share(build)[0].constants == ()


@pytest.mark.parametrize(
    "value",
    [
        np.full(LARGE + 1, 7, np.int8),
        np.zeros((2, LARGE), np.float64),
        np.arange(LARGE).astype(tf.bfloat16.as_numpy_dtype),
        np.array([b"a\0" * 100] * LARGE, dtype=object)[:1000],
        np.array([True, False] * LARGE),
    ],
    ids=["one value for all", "zeros", "bfloat16", "strings", "booleans"],
)
def test_constants_of_every_type_keep_their_value(value):
    def build():
        big = tf.constant(value)
        return {"one": [tf.identity(big)], "two": [tf.identity(big)]}

    sharing, definition, signatures = share(build)

    assert len(sharing.constants) == 1
    for got in run(sharing, definition, signatures):
        assert (got.dtype, got.tolist()) == (value.dtype, value.tolist())


def test_a_constant_in_a_function_that_two_signatures_call_becomes_a_variable():
    def build():
        inner = tf.function(lambda x: x + BIG)
        outer = tf.function(lambda x: tf.cond(x > 0.0, lambda: inner(x), lambda: inner(-x)))
        return {"one": [inner(tf.constant(1.0))], "two": [outer(tf.constant(-2.0))]}

    sharing, definition, signatures = share(build)

    assert len(sharing.constants) == 1
    assert sharing.copied_bytes == 0
    expected = [BIG + 1, BIG + 2]
    assert [value.tobytes() for value in run(sharing, definition, signatures)] == [one.tobytes() for one in expected]


def test_a_constant_that_waits_for_another_node_still_waits():
    def build():
        with tf.control_dependencies([tf.debugging.Assert(tf.constant(value=False), ["stop"])]):
            big = tf.constant(BIG)
        return {"one": [big * 1.0], "two": [big * 2.0]}

    changed = share(build)

    with pytest.raises(tf.errors.InvalidArgumentError, match="stop"):
        run(*changed)


def test_functions_that_xla_compiles_or_datasets_run_keep_their_constants_and_say_so():
    def build():
        compiled = tf.function(lambda x: x + BIG, jit_compile=True)
        dataset = tf.data.Dataset.range(1).map(lambda i: tf.cast(i, tf.float32) - BIG)
        reduced = dataset.reduce(BIG[:1], lambda total, element: total + tf.reduce_sum(element))
        return {"one": [compiled(tf.constant(1.0)) + reduced], "two": [compiled(tf.constant(2.0)) - reduced]}

    sharing, _, _ = share(build)

    assert sharing.constants == ()
    assert sharing.copied_bytes == 2 * BIG.nbytes
