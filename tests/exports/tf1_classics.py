"""SavedModels with what TensorFlow 1 programs had and later ones have not: their control flow, parts, main ops."""

from pathlib import Path

import tensorflow as tf

from tests.exports.tf1 import save, signature_of

v1 = tf.compat.v1


def export_tf1_control_flow(path: Path) -> Path:
    """Loops and branches of single ops (Enter, NextIteration, Switch, Merge), whose graph has cycles."""
    v1.disable_control_flow_v2()
    try:
        with v1.Graph().as_default(), v1.Session() as session:
            x = v1.placeholder(tf.float32, [None, 4], name="x")
            step = v1.get_variable("step", initializer=tf.constant(2.0), use_resource=False)
            looped = v1.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, v + step), [tf.constant(0), x])[1]
            branch = v1.cond(tf.reduce_sum(x) > 0.0, lambda: x * step, lambda: x - step)
            counted = v1.while_loop(lambda i: i < 3, lambda i: i + tf.cast(v1.assign_add(step, 1.0) > 0, tf.int32), [0])
            session.run(v1.global_variables_initializer())
            signatures = {
                "serving_default": signature_of({"x": x}, {"y": looped}),
                "branch": signature_of({"x": x}, {"y": branch}),
                "step": signature_of({}, {"step": tf.identity(step)}),
                "train": signature_of({}, {"runs": counted}),
            }
            return save(session, path, signatures)
    finally:
        v1.enable_control_flow_v2()


def export_tf1_partitioned(path: Path) -> Path:
    """A variable in parts, of which the checkpoint knows one whole tensor."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        parts = v1.get_variable(
            "weights",
            shape=[4, 2],
            initializer=v1.random_normal_initializer(seed=1),
            partitioner=v1.fixed_size_partitioner(2),
            use_resource=False,
        )
        session.run(v1.global_variables_initializer())
        whole = tf.convert_to_tensor(parts)
        return save(session, path, {"serving_default": signature_of({"x": x}, {"y": tf.matmul(x, whole)})})


def export_tf1_main_op(path: Path) -> Path:
    """The example of TensorFlow Serving's own tests: x / 2 + 2, by three methods, with an asset and a main op."""
    note = path.parent / "note.txt"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text("an asset")
    with v1.Graph().as_default(), v1.Session() as session:
        half = v1.get_variable("a", initializer=tf.constant(0.5), use_resource=False)
        two = v1.get_variable("b", initializer=tf.constant(2.0), use_resource=False)
        examples = v1.placeholder(tf.string, [None], name="tf_example")
        parsed = v1.parse_example(examples, {"x": tf.io.FixedLenFeature([4], tf.float32, default_value=[0.0] * 4)})
        x = tf.identity(parsed["x"], name="x")
        y = half * x + two
        name = tf.constant(str(note))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, name)
        content = v1.get_variable("content", initializer="", use_resource=False, trainable=False)
        session.run(v1.global_variables_initializer())
        classes = tf.as_string(tf.cast(y, tf.int32))
        signatures = {
            "serving_default": signature_of({"x": x}, {"y": y}),
            "regress_x_to_y": v1.saved_model.regression_signature_def(examples, y[:, :1]),
            "classify_x_to_y": v1.saved_model.classification_signature_def(examples, classes, y),
            "note": signature_of({}, {"note": tf.identity(content)}),
        }
        main_op = tf.group(v1.assign(content, tf.io.read_file(name)), v1.tables_initializer())
        save(session, path, signatures, main_op=main_op)
    note.unlink()  # the export has its own copy
    return path


def export_tf1_pipeline(path: Path) -> Path:
    """The graph of a training, whose signatures feed what its input pipeline gave; one of them still draws from it."""
    with v1.Graph().as_default(), v1.Session() as session:
        examples = v1.data.Dataset.from_tensor_slices((tf.ones([8, 4]), tf.ones([8]))).batch(2)
        x, label = v1.data.make_initializable_iterator(examples).get_next()
        counted = v1.get_variable("counted", initializer=tf.constant(0), use_resource=False)
        weights = v1.get_variable("weights", initializer=tf.reshape(tf.range(8.0), [4, 2]), use_resource=False)
        session.run(v1.global_variables_initializer())
        with tf.control_dependencies([v1.assign_add(counted, 1)]):
            noted = tf.identity(x)
        signatures = {
            "serving_default": signature_of({"x": x}, {"y": tf.matmul(x, weights), "x": x}),
            "noted": signature_of({"noted": noted}, {"y": tf.matmul(noted, weights)}),
            "loss": signature_of({"x": x, "label": label}, {"loss": tf.reduce_sum(x) - label}),
        }
        return save(session, path, signatures)


def export_tf1_unready(path: Path) -> Path:
    """A table that nothing fills, and an output that is an op without a tensor, beside a good signature."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        word = v1.placeholder(tf.string, [None], name="word")
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [1]), default_value=-1)
        step = v1.get_variable("step", initializer=tf.constant(0), use_resource=True)
        session.run(v1.global_variables_initializer())
        signatures = {
            "serving_default": signature_of({"x": x}, {"y": x * 2.0}),
            "find": signature_of({"word": word}, {"id": table.lookup(word)}),
            "step": signature_of({}, {"step": v1.assign_add(step, 1)}),
        }
        return save(session, path, signatures)
