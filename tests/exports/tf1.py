"""SavedModels as TensorFlow 1 wrote them: reference variables, collections, init ops, signatures on bare tensors."""

from pathlib import Path

import tensorflow as tf

v1 = tf.compat.v1


def export_tf1_variables(path: Path) -> Path:
    """Reference variables; a signature that trains, one that assigns before it reads, one that reads only."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        weights = v1.get_variable("weights", initializer=tf.reshape(tf.range(8.0), [4, 2]), use_resource=False)
        step = v1.get_variable("step", initializer=tf.constant(0), use_resource=False)
        session.run(v1.global_variables_initializer())
        signatures = {
            "serving_default": signature_of({"x": x}, {"y": tf.matmul(x, weights)}),
            "train": signature_of({}, {"step": v1.assign_add(step, 1)}),
            "step": signature_of({}, {"step": tf.identity(step)}),
            "weights": signature_of({}, {"weights": weights}),
        }
        return save(session, path, signatures)


def export_tf1_tables(path: Path) -> Path:
    """A table that is filled from an asset by the init op of old exports."""
    vocabulary = path.parent / "tf1_vocabulary.txt"
    vocabulary.parent.mkdir(parents=True, exist_ok=True)
    vocabulary.write_text("zero\none\ntwo\n")
    with v1.Graph().as_default(), v1.Session() as session:
        file = tf.constant(str(vocabulary))
        v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
        table = tf.lookup.StaticHashTable(
            tf.lookup.TextFileInitializer(
                file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
            ),
            default_value=-1,
        )
        word = v1.placeholder(tf.string, [None], name="word")
        session.run(v1.tables_initializer())
        signatures = {"serving_default": signature_of({"word": word}, {"id": table.lookup(word)})}
        save(session, path, signatures, legacy_init_op=v1.tables_initializer())
    vocabulary.unlink()  # the export has its own copy
    return path


def export_tf1_examples(path: Path) -> Path:
    """A classifier that parses ``tf.Example`` strings, with the three methods of its time."""
    with v1.Graph().as_default(), v1.Session() as session:
        examples = v1.placeholder(tf.string, [None], name="examples")
        features = {"x": tf.io.FixedLenFeature([4], tf.float32)}
        x = v1.parse_example(examples, features)["x"]
        weights = v1.get_variable("weights", initializer=tf.reshape(tf.range(12.0), [4, 3]), use_resource=False)
        scores = tf.nn.softmax(tf.matmul(x, weights) / 10.0)
        classes = tf.tile(tf.constant([["cat", "dog", "owl"]]), [tf.shape(x)[0], 1])
        session.run(v1.global_variables_initializer())
        signatures = {
            "serving_default": v1.saved_model.classification_signature_def(examples, classes, scores),
            "regression": v1.saved_model.regression_signature_def(examples, tf.reduce_sum(x, axis=1)),
            "predict": signature_of({"x": x}, {"scores": scores}),
        }
        return save(session, path, signatures)


def export_tensors(path: Path) -> Path:
    """Signatures whose tensors a Session refuses (fed twice, or fed and fetched), and one that can fail in part."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], name="x")
        k = v1.placeholder(tf.float32, [], name="k")
        y = x * 2.0
        signatures = {
            "echo": signature_of({"x": x}, {"x": x, "y": y, "again": y}),
            "echo_only": signature_of({"x": x}, {"x": x}),
            "twice": signature_of({"left": x, "right": x}, {"y": y}),
            "unused": signature_of({"x": x, "k": k}, {"y": y}),
            "partly": signature_of({"x": x}, {"y": y, "checked": tf.debugging.check_numerics(x, "x has a hole")}),
            "inner": signature_of({"y": y}, {"z": y + 1.0}),
        }
        return save(session, path, signatures)


def export_assign_before_read(path: Path) -> Path:
    """A variable without a value: one signature assigns it first, one reads it, one does not need it."""
    with v1.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [3], name="x")
        kept = v1.get_variable("kept", initializer=tf.constant(5.0), use_resource=True)
        scratch = v1.get_variable("scratch", initializer=tf.zeros([3]), use_resource=True)
        session.run(kept.initializer)
        assigned = v1.assign(scratch, x)
        with tf.control_dependencies([assigned]):
            read_after = scratch.read_value() + kept
        signatures = {
            "assigns_first": signature_of({"x": x}, {"y": read_after}),
            "reads_first": signature_of({"x": x}, {"y": scratch.read_value() + x}),
            "needs_neither": signature_of({"x": x}, {"y": x + kept}),
        }
        return save(session, path, signatures, saver=v1.train.Saver([kept]))


def signature_of(inputs, outputs):
    """Return a signature of the predict method on these tensors, by name."""
    info = v1.saved_model.build_tensor_info
    return v1.saved_model.build_signature_def(
        {name: info(tensor) for name, tensor in inputs.items()},
        {name: info(tensor) for name, tensor in outputs.items()},
        v1.saved_model.signature_constants.PREDICT_METHOD_NAME,
    )


def save(session, path: Path, signatures, **options) -> Path:
    """Write what the session holds, with the assets of its graph."""
    builder = v1.saved_model.Builder(str(path))
    assets = v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS)
    builder.add_meta_graph_and_variables(
        session, ["serve"], signature_def_map=signatures, assets_collection=assets, strip_default_attrs=True, **options
    )
    builder.save()
    return path
