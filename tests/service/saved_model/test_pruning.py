"""Only what is needed is left of a graph, and it can still be imported."""

import tensorflow as tf

from service.saved_model.pruning import prune


def test_nodes_and_functions_that_are_not_needed_go():
    with tf.Graph().as_default() as graph:
        kept = tf.function(lambda: tf.constant(1.0) + 1.0)()
        tf.function(lambda: tf.constant(2.0) * 2.0)()
    pruned = prune(graph.as_graph_def(), [kept.op.name])

    assert [node.name for node in pruned.node] == [kept.op.name]
    assert len(pruned.library.function) == 1
    with tf.Graph().as_default() as graph, tf.compat.v1.Session() as session:
        tf.graph_util.import_graph_def(pruned, name="")
        assert session.run(f"{kept.op.name}:0") == 2.0


def test_a_place_beside_a_node_that_goes_is_forgotten():
    with tf.Graph().as_default() as graph:
        gone, stays = tf.constant(1.0, name="gone"), tf.constant(2.0, name="stays")
        with tf.compat.v1.colocate_with(gone.op):
            one = tf.identity(stays, name="one")
        with tf.compat.v1.colocate_with(stays.op):
            tf.identity(one, name="two")
    pruned = prune(graph.as_graph_def(), ["two"])

    assert {node.name: list(node.attr["_class"].list.s) for node in pruned.node if node.op == "Identity"} == {
        "one": [],
        "two": [b"loc:@stays"],
    }
    with tf.Graph().as_default():
        tf.graph_util.import_graph_def(pruned, name="")


def test_functions_of_the_same_interface_stay_together():
    def implementation(device):
        attributes = {"api_implements": "layer", "api_preferred_device": device}
        return tf.function(lambda x: x + 1.0, experimental_attributes=attributes)

    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0)
        used = implementation("CPU")(x)
        implementation("GPU")(x)
    pruned = prune(graph.as_graph_def(), [used.op.name])

    assert len(pruned.library.function) == 2
