"""Before the server starts: train, export, and run the export in plain TensorFlow for the right answers."""

from pathlib import Path
from typing import Final

import numpy as np
import tensorflow as tf

from clients.demo.calls import Call, Tensors
from clients.digits.export import export
from clients.digits.pictures import WORDS, Pictures, encode_png, load_pictures
from clients.digits.training import train

_THREADS: Final = 2


def train_and_export(directory: Path) -> Pictures:
    """Write the SavedModel to ``directory`` and return the held-out pictures."""
    tf.config.threading.set_intra_op_parallelism_threads(_THREADS)
    tf.config.threading.set_inter_op_parallelism_threads(_THREADS)
    training, held_out = load_pictures()
    export(train(training, held_out), directory)
    return held_out


def answer_in_process(directory: Path, held_out: Pictures) -> list[Call]:
    """Return a call of every signature on all held-out pictures, answered by ``tf.saved_model.load``."""
    inputs_by_name = {
        "images": held_out.images,
        "png": np.array([encode_png(image) for image in held_out.images], np.object_),
        "words": np.array([WORDS[label].encode() for label in held_out.labels], np.object_),
    }
    model = tf.saved_model.load(str(directory))
    calls = []
    for name, function in model.signatures.items():
        inputs = {key: inputs_by_name[key] for key in function.structured_input_signature[1]}
        calls.append(Call(name, inputs, _run(function, inputs)))
    return calls


def _run(function: tf.types.experimental.ConcreteFunction, inputs: Tensors) -> Tensors:
    outputs = function(**{name: tf.constant(array) for name, array in inputs.items()})
    return {name: _as_client_sees_it(tensor.numpy()) for name, tensor in outputs.items()}


def _as_client_sees_it(value: np.ndarray | np.generic | bytes) -> np.ndarray:
    """Return an array whatever the rank; TensorFlow gives scalars as ``np.float32`` or ``bytes``."""
    return np.array(value, np.object_) if isinstance(value, bytes) else np.asarray(value)
