"""A model that tells how red, green, blue and bright a picture is, as image classifiers are exported."""

from pathlib import Path

import tensorflow as tf

CONFIG = """
max_batch_size: 8
input { name: "image" format: FORMAT_NHWC dims: [ 8, 8, 3 ] }
output { name: "scores" label_filename: "labels.txt" dims: [ 4 ] }
signatures {
  key: "ids"
  value {
    input { name: "id" dims: [ 1 ] reshape { shape: [ ] } }
    output { name: "next" dims: [ 1 ] reshape { shape: [ ] } }
  }
}
"""
# One label fewer than there are classes.
LABELS = "red\ngreen\ndeep blue\n"


def export_pictures(directory: Path) -> None:
    """Write the model with its configuration, as Triton's repositories keep one."""
    module = tf.Module()
    signatures = {
        "serving_default": tf.function(_scores).get_concrete_function(
            tf.TensorSpec([None, 8, 8, 3], tf.float32, name="image")
        ),
        "ids": tf.function(_next).get_concrete_function(tf.TensorSpec([None], tf.int32, name="id")),
    }
    tf.saved_model.save(module, str(directory / "1" / "model.savedmodel"), signatures=signatures)
    (directory / "config.pbtxt").write_text(CONFIG)
    (directory / "labels.txt").write_text(LABELS)


def _scores(image: tf.Tensor) -> dict[str, tf.Tensor]:
    colours = tf.reduce_mean(image, [1, 2])
    return {"scores": tf.concat([colours, tf.reduce_mean(colours, 1, keepdims=True)], axis=1)}


def _next(id: tf.Tensor) -> dict[str, tf.Tensor]:  # noqa: A002 - the input's name
    return {"next": id + 1}
