"""The model: one set of weights, and one method for each signature that it will be exported with.

Pictures and digit words meet in one space of embeddings. A picture goes through two layers to a vector of unit
length; each word has such a vector of its own. The cosine between the two says how well the word names the picture,
so classifying a picture is finding the nearest word.

Source: the joint space of CLIP (Radford et al., 2021), with ten fixed captions in place of a text encoder.
"""

from typing import Final

import numpy as np
import tensorflow as tf

from clients.digits.pictures import GREY_PER_INK, WORDS

EMBEDDING_SIZE: Final = 32
_PIXELS: Final = 64
_HIDDEN_SIZE: Final = 256
_MAX_INK: Final = 16
_LOGIT_PER_COSINE: Final = 8.0  # cosines end at 1, too flat for a softmax over ten classes
_NO_WORD: Final = -1


class DigitsModel(tf.Module):  # type: ignore[misc]  # TensorFlow publishes no types
    """Digits as pictures and as words; each public method is what one signature computes.

    Everything that is kept in attributes here, variables and the lookup table alike, is written to the export once,
    however many signatures use it.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        self._into_hidden = _normal(random, _PIXELS, _HIDDEN_SIZE)
        self._bias = tf.Variable(tf.zeros([_HIDDEN_SIZE]))
        self._into_embedding = _normal(random, _HIDDEN_SIZE, EMBEDDING_SIZE)
        self._word_vectors = _normal(random, len(WORDS), EMBEDDING_SIZE)
        # What training finds out beyond the weights. Variables that are not trained are exported like any other.
        self.same_digit_cosine = tf.Variable(0.0, trainable=False)
        self.right_word_cosine = tf.Variable(0.0, trainable=False)
        self.held_out_accuracy = tf.Variable(0.0, trainable=False)
        self.training_images = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._word_index = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer(list(WORDS), list(range(len(WORDS))), tf.string, tf.int64), _NO_WORD
        )

    def predict(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Name the digit that each picture shows.

        Args:
            images: ink from 0 to 16, FP32 of shape [b, 8, 8].

        Returns:
            ``class``: the digit, INT64 [b]; ``score``: its probability, FP32 [b].
        """
        probabilities = tf.nn.softmax(self.logits(images))
        return {"class": tf.argmax(probabilities, axis=1), "score": tf.reduce_max(probabilities, axis=1)}

    def embeddings(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Return ``embedding`` of unit length, FP32 [b, 32], of pictures of shape [b, 8, 8]."""
        return {"embedding": tf.math.l2_normalize(self._project(self._hidden(images)), axis=1)}

    def predict_png(self, png: tf.Tensor) -> dict[str, tf.Tensor]:
        """Do what ``predict`` does for pictures that come as PNG files, BYTES [b]; the graph decodes them."""
        return self.predict(tf.map_fn(_decode_png, png, fn_output_signature=tf.float32))

    def embed_text(self, words: tf.Tensor) -> dict[str, tf.Tensor]:
        """Place digit words among the pictures.

        Args:
            words: such as ``seven``, BYTES [b]; case and spaces around a word do not matter.

        Returns:
            ``embedding``: FP32 [b, 32], of unit length; zero for a word that names no digit, so that its cosine with
            every picture is 0.
        """
        index = self._word_index.lookup(tf.strings.lower(tf.strings.strip(words)))
        return {"embedding": tf.one_hot(index, len(WORDS)) @ self._unit_word_vectors()}

    def image_threshold(self) -> dict[str, tf.Tensor]:
        """Return ``threshold``, FP32 []: two pictures with a cosine above it show the same digit."""
        return {"threshold": tf.identity(self.same_digit_cosine)}

    def text_threshold(self) -> dict[str, tf.Tensor]:
        """Return ``threshold``, FP32 []: a word whose cosine with a picture is above it names the picture."""
        return {"threshold": tf.identity(self.right_word_cosine)}

    def metadata(self) -> dict[str, tf.Tensor]:
        """Say what this model is: scalars and one list, numbers and BYTES, without any input."""
        return {
            "description": tf.constant("Handwritten digits of 8x8 pixels and the English words for them"),
            "class_names": tf.constant(WORDS),
            "embedding_size": tf.constant(EMBEDDING_SIZE, tf.int64),
            "training_images": tf.identity(self.training_images),
            "held_out_accuracy": tf.identity(self.held_out_accuracy),
        }

    def debug_predict(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Show the way to ``predict``: ``hidden`` FP32 [b, 256], ``logits`` and ``probabilities`` FP32 [b, 10]."""
        logits = self.logits(images)
        return {"hidden": self._hidden(images), "logits": logits, "probabilities": tf.nn.softmax(logits)}

    def debug_embeddings(self, images: tf.Tensor) -> dict[str, tf.Tensor]:
        """Show the way to ``embeddings``: ``hidden`` FP32 [b, 256], ``projected`` FP32 [b, 32], ``length`` FP32 [b]."""
        hidden = self._hidden(images)
        projected = self._project(hidden)
        return {"hidden": hidden, "projected": projected, "length": tf.norm(projected, axis=1)}

    def logits(self, images: tf.Tensor) -> tf.Tensor:
        """Return the scaled cosine of each picture with each word, FP32 [b, 10], of pictures of shape [b, 8, 8]."""
        cosines = tf.matmul(self.embeddings(images)["embedding"], self._unit_word_vectors(), transpose_b=True)
        return _LOGIT_PER_COSINE * cosines

    def _hidden(self, images: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(tf.reshape(images, [-1, _PIXELS]) / _MAX_INK @ self._into_hidden + self._bias)

    def _project(self, hidden: tf.Tensor) -> tf.Tensor:
        return hidden @ self._into_embedding

    def _unit_word_vectors(self) -> tf.Tensor:
        return tf.math.l2_normalize(self._word_vectors, axis=1)


def _normal(random: np.random.Generator, rows: int, columns: int) -> tf.Variable:
    """Return weights [rows, columns] drawn so that a layer keeps the size of what goes through it."""
    return tf.Variable(random.normal(0.0, rows**-0.5, (rows, columns)).astype(np.float32))


def _decode_png(png: tf.Tensor) -> tf.Tensor:
    """Return the ink of one PNG file, FP32 [8, 8]; a picture of another size fails the request that brought it."""
    grey = tf.ensure_shape(tf.io.decode_png(png, channels=1), [8, 8, 1])
    return tf.cast(tf.squeeze(grey, axis=2) // GREY_PER_INK, tf.float32)
