"""SavedModels of Keras models, and of an optimizer whose state only its own class can restore."""

from pathlib import Path

import keras
import tensorflow as tf

from tests.exports.kit import FLOATS, concrete


def export_keras(path: Path) -> Path:
    """A Keras 3 model by ``model.export``."""
    _model().export(str(path), verbose=False)
    return path


def export_keras_in_module(path: Path) -> Path:
    """A Keras 3 model inside a ``tf.Module``: the export's restore function leaves its variables out."""
    module = tf.Module()
    module.model = _model()
    module.scale = tf.Variable(3.0, name="scale")
    module.table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), default_value=-1)
    signatures = {
        "serving_default": concrete(lambda x: {"y": module.model(x) * module.scale}, FLOATS),
        "scale": concrete(lambda: {"scale": module.scale.read_value()}),
        "find": concrete(lambda key: {"value": module.table.lookup(key)}, tf.TensorSpec([None], tf.string, name="key")),
    }
    tf.saved_model.save(module, str(path), signatures=signatures)
    return path


def export_optimizer(path: Path) -> Path:
    """An optimizer with slot variables, as exports of Keras 2 carry; ``tf.saved_model.load`` fails on them."""
    module = tf.Module()
    module.weights = tf.Variable([1.0, 2.0, 3.0, 4.0], name="weights")
    module.optimizer = tf.compat.v1.train.AdamOptimizer()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(module.weights**2)
    module.optimizer.apply_gradients([(tape.gradient(loss, module.weights), module.weights)])
    signature = concrete(lambda x: {"y": x * module.weights}, FLOATS)
    tf.saved_model.save(module, str(path), signatures=signature)
    return path


def _model() -> keras.Model:
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.layers.Input((4,), name="x"),
            keras.layers.Dense(5, activation="relu"),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(2),
        ]
    )
