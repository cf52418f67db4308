"""The export: every method of the model becomes a signature of one SavedModel."""

from pathlib import Path

import tensorflow as tf

from clients.digits.model import DigitsModel


def export(model: DigitsModel, directory: Path) -> None:
    """Write the model with all its signatures to ``directory``, as ``saved_model.pb`` and ``variables/``.

    The weights are written once: signatures hold references to the model's variables, not copies. That is so as long
    as a method reads a ``tf.Variable``; a tensor that it captured would be copied into each of them.
    """
    tf.saved_model.save(model, str(directory), signatures=signatures(model))


def signatures(model: DigitsModel) -> dict[str, tf.types.experimental.ConcreteFunction]:
    """Return each signature's name and function.

    The name of a TensorSpec is what clients call the input; the keys of the dictionary that the method returns are
    what they call the outputs. An axis of size None takes any size. Where axis 0 of all inputs and outputs is such an
    axis, and rows do not influence each other, a server may run the rows of many requests at once.
    """
    images = tf.TensorSpec([None, 8, 8], tf.float32, name="images")
    png = tf.TensorSpec([None], tf.string, name="png")
    words = tf.TensorSpec([None], tf.string, name="words")
    inputs_by_method = {
        model.predict: [images],
        model.embeddings: [images],
        model.predict_png: [png],
        model.embed_text: [words],
        model.image_threshold: [],
        model.text_threshold: [],
        model.metadata: [],
        model.debug_predict: [images],
        model.debug_embeddings: [images],
    }
    return {
        method.__name__: tf.function(method, input_signature=inputs).get_concrete_function()
        for method, inputs in inputs_by_method.items()
    }
