"""Training, in a second or two on one core: gradient descent on all training pictures at once.

Nothing is drawn or shuffled on the way, so the same start gives the same model.
"""

from typing import Final

import numpy as np
import tensorflow as tf

from clients.digits.model import DigitsModel
from clients.digits.pictures import WORDS, Pictures

_STEPS: Final = 200
_LEARNING_RATE: Final = 0.2
_MOMENTUM: Final = 0.9


def train(training: Pictures, held_out: Pictures) -> DigitsModel:
    """Return a model trained on ``training``, its accuracy taken on ``held_out``, which it never learns from."""
    model = DigitsModel()
    descend(model, training)
    set_thresholds(model, training)
    model.training_images.assign(len(training.labels))
    model.held_out_accuracy.assign(np.mean(model.predict(held_out.images)["class"] == held_out.labels))
    return model


def descend(model: DigitsModel, training: Pictures) -> None:
    """Fit the weights by gradient descent with momentum on the cross-entropy of the right digit."""
    weights = model.trainable_variables
    velocities = [tf.Variable(tf.zeros_like(weight)) for weight in weights]

    def step() -> None:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(training.labels, model.logits(training.images))
            loss = tf.reduce_mean(losses)
        for weight, velocity, gradient in zip(weights, velocities, tape.gradient(loss, weights), strict=True):
            velocity.assign(_MOMENTUM * velocity + gradient)
            weight.assign_sub(_LEARNING_RATE * velocity)

    compiled_step = tf.function(step)
    for _ in range(_STEPS):
        compiled_step()


def set_thresholds(model: DigitsModel, training: Pictures) -> None:
    """Put both thresholds where they best tell matching from other pairs among the training pictures."""
    labels = training.labels
    images = model.embeddings(training.images)["embedding"].numpy()
    words = model.embed_text(tf.constant(WORDS))["embedding"].numpy()
    first, second = np.triu_indices(len(labels), k=1)  # each pair of two different pictures once
    model.same_digit_cosine.assign(
        separating_threshold((images @ images.T)[first, second], labels[first] == labels[second])
    )
    model.right_word_cosine.assign(
        separating_threshold((images @ words.T).ravel(), (labels[:, np.newaxis] == np.arange(len(WORDS))).ravel())
    )


def separating_threshold(cosines: np.ndarray, matches: np.ndarray) -> float:
    """Return the threshold with the most matches above it and the fewest others, each kind counted in its own share.

    Args:
        cosines: one for each pair, shape [n].
        matches: whether the pair belongs together, BOOL [n]; both kinds occur.

    Returns:
        The middle between the two neighbouring cosines where the share of matches above less the share of others
        above is largest.

    Source: Youden (1950), "Index for rating diagnostic tests".
    """
    order = np.argsort(cosines)[::-1]
    matches_above = np.cumsum(matches[order]) / np.sum(matches)
    others_above = np.cumsum(~matches[order]) / np.sum(~matches)
    best = int(np.argmax((matches_above - others_above)[:-1]))
    return float(np.mean(cosines[order[best : best + 2]]))
