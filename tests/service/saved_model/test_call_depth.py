"""Which signatures may run in the calling thread."""

import pytest
import tensorflow as tf

from service.saved_model.call_depth import DEEPEST_INLINE, HEAVY_OPS_BESIDE, CallDepth
from service.saved_model.graph_index import GraphIndex
from tests.exports.kit import sleep


def why_pool(build):
    with tf.Graph().as_default() as graph:
        result = build(tf.compat.v1.placeholder(tf.float32, [4, 4]))
        return CallDepth(GraphIndex(graph.as_graph_def())).why_pool([result.op.name])


@tf.function
def step(x):
    return x + 1.0


def chain(length):
    def build(x):
        for _ in range(length):
            x = step(x)
        return x

    return build


def nested(depth):
    function = step
    for _ in range(depth - 1):
        function = tf.function(lambda x, inner=function: inner(x) * 2.0)
    return function


def branches(count, length):
    """Return ``count`` independent chains of ``length`` matrix products."""

    def build(x):
        ends = []
        for number in range(count):
            end = x + float(number)
            for _ in range(length):
                end = tf.matmul(end, end)
            ends.append(end)
        return tf.add_n(ends)

    return build


def loop(x):
    return tf.while_loop(lambda i, _: i < 1000, lambda i, v: (i + 1, step(v)), [tf.constant(0), x])[1]


@pytest.mark.parametrize(
    "build",
    [
        chain(0),
        chain(DEEPEST_INLINE - 1),
        nested(20),
        lambda x: tf.add_n([step(x) for _ in range(DEEPEST_INLINE)]),
        tf.function(loop),
        branches(1, 100),
        branches(2, HEAVY_OPS_BESIDE - 1),
        lambda x: branches(1, 40)(branches(2, HEAVY_OPS_BESIDE)(x)),
    ],
    ids=["plain", "shorter chain", "nested", "calls beside each other", "loop", "one path", "light", "short fork"],
)
def test_runs_inline(build):
    assert why_pool(build) is None


def test_a_long_chain_of_calls_uses_the_pool():
    assert why_pool(chain(DEEPEST_INLINE)) == f"{DEEPEST_INLINE} calls in a chain"


def test_calls_inside_calls_add_to_the_chain():
    half = tf.function(chain(DEEPEST_INLINE // 2 - 1))

    assert why_pool(lambda x: half(half(x))) == f"{DEEPEST_INLINE} calls in a chain"


def test_independent_heavy_branches_use_the_pool():
    assert why_pool(branches(2, HEAVY_OPS_BESIDE)) == f"{HEAVY_OPS_BESIDE} heavy ops beside a path of 16"


def test_heavy_branches_inside_a_function_use_the_pool():
    assert why_pool(tf.function(branches(3, 20))) == "40 heavy ops beside a path of 20"


def test_ops_that_wait_for_other_threads_use_the_pool():
    reason = why_pool(lambda x: x + tf.cast(sleep(tf.constant(1, tf.int64)), tf.float32))

    assert "waits for other threads" in reason
