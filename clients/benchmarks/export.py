"""Makes the models that are measured. It runs in a process of its own, since the benchmark needs no TensorFlow.

Weights are random: what a model answers does not matter here, only what its answer costs.
"""

import argparse
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import keras
import tensorflow as tf

from clients.benchmarks.models import MIXED_SIGNATURES, PICTURE_SIZE, WORDS

_SEED: Final = 1
_PICTURES: Final = tf.TensorSpec([None, PICTURE_SIZE, PICTURE_SIZE, 3], tf.uint8, name="images")


def main() -> None:
    """Export the models that are named and are not there yet."""
    parser = argparse.ArgumentParser(prog="python -m clients.benchmarks.export", description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("models", nargs="+", choices=sorted(EXPORTS))
    arguments = parser.parse_args()
    keras.utils.set_random_seed(_SEED)
    for name in arguments.models:
        path = arguments.directory / name
        if not path.exists():
            unfinished = path.with_name(f".{name}.{os.getpid()}")
            EXPORTS[name](unfinished)
            shutil.rmtree(path, ignore_errors=True)
            unfinished.rename(path)


def export_toy(path: Path) -> None:
    """Two signatures of a few microseconds, so that everything but the model is measured."""
    weights = tf.Variable(tf.random.normal([4, 8], seed=_SEED), name="weights")
    x = tf.TensorSpec([None, 4], tf.float32, name="x")
    signatures = {"scores": _concrete(lambda x: {"y": tf.matmul(x, weights)}, x), "doubled": _concrete(_double, x)}
    _save(path, signatures, weights=weights)


def export_mixed(path: Path) -> None:
    """Signatures of equal cost, each with weights of its own."""
    x = tf.TensorSpec([None, 4], tf.float32, name="x")
    weights = [tf.Variable(tf.random.normal([4, 8]), name=f"weights_{name}") for name in MIXED_SIGNATURES]

    def multiply(mine: tf.Variable) -> tf.types.experimental.ConcreteFunction:
        return _concrete(lambda x: {"y": tf.matmul(x, mine)}, x)

    signatures = {name: multiply(mine) for name, mine in zip(MIXED_SIGNATURES, weights, strict=True)}
    _save(path, signatures, weights=weights)


def export_pictures(path: Path) -> None:
    """Take large inputs and read almost nothing of them, so that their way to the model is measured."""
    _save(path, {"first_pixel": _concrete(lambda images: {"pixel": images[:, 0, 0]}, _PICTURES)})


def export_strings(path: Path) -> None:
    """Strings in, strings out."""
    words = tf.TensorSpec([None, WORDS], tf.string, name="words")
    _save(path, {"upper": _concrete(lambda words: {"upper": tf.strings.upper(words)}, words)})


def export_efficientnet(path: Path) -> None:
    """EfficientNet-B0: 5 million weights."""
    _export_vision(path, keras.applications.EfficientNetB0(weights=None))


def export_resnet(path: Path) -> None:
    """ResNet-50: 26 million weights."""
    _export_vision(path, keras.applications.ResNet50(weights=None))


def _export_vision(path: Path, model: keras.Model) -> None:
    """Export a classifier with what is usual in production: classes, embeddings, and classes of encoded pictures."""
    features = keras.Model(model.inputs, model.layers[-2].output)

    def images(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"probabilities": model(tf.cast(images, tf.float32), training=False)}

    def embeddings(images: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"embedding": features(tf.cast(images, tf.float32), training=False)}

    def jpeg(jpeg: tf.Tensor) -> dict[str, tf.Tensor]:
        shape = tf.TensorSpec([PICTURE_SIZE, PICTURE_SIZE, 3], tf.float32)
        return {"probabilities": model(tf.map_fn(_decode, jpeg, fn_output_signature=shape), training=False)}

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("images", images, input_signature=[_PICTURES])
    archive.add_endpoint("embeddings", embeddings, input_signature=[_PICTURES])
    archive.add_endpoint("jpeg", jpeg, input_signature=[tf.TensorSpec([None], tf.string, name="jpeg")])
    archive.write_out(str(path), verbose=False)


def _decode(encoded: tf.Tensor) -> tf.Tensor:
    picture = tf.image.resize(tf.io.decode_jpeg(encoded, channels=3), [PICTURE_SIZE, PICTURE_SIZE])
    return tf.ensure_shape(picture, [PICTURE_SIZE, PICTURE_SIZE, 3])


def _double(x: tf.Tensor) -> dict[str, tf.Tensor]:
    return {"y": x * 2.0}


def _concrete(
    function: Callable[[tf.Tensor], dict[str, tf.Tensor]], spec: tf.TensorSpec
) -> tf.types.experimental.ConcreteFunction:
    concrete: tf.types.experimental.ConcreteFunction = tf.function(
        function, input_signature=[spec]
    ).get_concrete_function()
    return concrete


def _save(path: Path, signatures: dict[str, tf.types.experimental.ConcreteFunction], **tracked: object) -> None:
    module = tf.Module()
    for name, value in tracked.items():
        setattr(module, name, value)
    tf.saved_model.save(module, str(path), signatures=signatures)


EXPORTS: Final[dict[str, Callable[[Path], None]]] = {
    "efficientnet": export_efficientnet,
    "mixed": export_mixed,
    "pictures": export_pictures,
    "resnet": export_resnet,
    "strings": export_strings,
    "toy": export_toy,
}

if __name__ == "__main__":
    main()
