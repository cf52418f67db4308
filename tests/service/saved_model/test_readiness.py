"""A variable must be ready when a signature can read it before assigning it; graphs here are made by TensorFlow."""

import pytest
import tensorflow as tf

from service.saved_model.graph_index import GraphIndex
from service.saved_model.readiness import StateUse

v1 = tf.compat.v1


def variables_read(build, *, use_resource=True):
    """Return what the tensor that ``build`` makes of a variable reads."""
    with tf.Graph().as_default() as graph:
        variable = v1.get_variable("v", initializer=tf.ones([3]), use_resource=use_resource)
        result = build(variable)
        return StateUse(GraphIndex(graph.as_graph_def())).variables_read([result.op.name])


def read(v):
    return v.read_value() * 2.0


def gather(v):
    return tf.gather(v, [0])


def assign_then_read(v):
    with tf.control_dependencies([v.assign(tf.zeros([3]))]):
        return v.read_value()


def read_then_assign(v):
    before = v.read_value()
    with tf.control_dependencies([before]), tf.control_dependencies([v.assign(tf.zeros([3]))]):
        return tf.identity(before)


def add_to(v):
    with tf.control_dependencies([v.assign_add(tf.ones([3]))]):
        return v.read_value()


def in_function(body):
    return lambda v: tf.function(lambda: body(v))()


def in_nested_function(body):
    return in_function(in_function(body))


def assign_in_function_then_read(v):
    @tf.function
    def assign():
        v.assign(tf.zeros([3]))
        return 0.0

    with tf.control_dependencies([assign()]):
        return v.read_value()


def branch(when_true, when_false):
    def build(v):
        def body():
            tf.cond(tf.reduce_sum(tf.range(3)) > 1, lambda: when_true(v), lambda: when_false(v))
            return v.read_value()

        return tf.function(body)()

    return build


def assign(v):
    v.assign(tf.zeros([3]))
    return 0.0


def nothing(_):
    return 0.0


def assign_in_a_loop(v):
    def body():
        for _ in tf.range(tf.reduce_sum(tf.range(3))):
            v.assign(tf.zeros([3]))
        return v.read_value()

    return tf.function(body)()


@pytest.mark.parametrize(
    "build",
    [
        read,
        gather,
        read_then_assign,
        add_to,
        in_function(read),
        in_nested_function(gather),
        in_function(read_then_assign),
        in_function(add_to),
        branch(assign, nothing),
        branch(nothing, read),
        assign_in_a_loop,
    ],
)
def test_a_variable_that_can_be_read_first_must_be_ready(build):
    assert variables_read(build) == ["v"]


@pytest.mark.parametrize(
    "build",
    [
        assign_then_read,
        in_function(assign_then_read),
        in_nested_function(assign_then_read),
        assign_in_function_then_read,
        branch(assign, assign),
        lambda _: tf.constant(1.0),
        lambda v: v.is_initialized(),
    ],
)
def test_a_variable_that_is_assigned_first_or_not_read_need_not_be_ready(build):
    assert variables_read(build) == []


@pytest.mark.parametrize(("build", "names"), [(read, ["v"]), (assign_then_read, [])])
def test_reference_variables_follow_the_same_rule(build, names):
    assert variables_read(build, use_resource=False) == names


def test_tables_that_a_run_reaches_are_found():
    with tf.Graph().as_default() as graph:
        tables = [
            tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), -1, name=f"table_{number}")
            for number in range(2)
        ]
        found = tables[1].lookup(tf.constant(["a"]))

        use = StateUse(GraphIndex(graph.as_graph_def()))
        assert use.tables([found.op.name]) == [tables[1].resource_handle.op.name]
