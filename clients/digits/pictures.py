"""The handwritten digits that scikit-learn ships: 1,797 real pictures of 8x8 pixels with ink from 0 to 16."""

import io
from dataclasses import dataclass
from typing import Final

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

WORDS: Final = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
"""The names of the classes; the index is the digit."""

GREY_PER_INK: Final = 15
"""Grey levels of a PNG for each level of ink: 16 * 15 fits a byte, and dividing by 15 gives the ink back exactly."""

_HELD_OUT_EVERY: Final = 5


@dataclass(frozen=True)
class Pictures:
    """Pictures and what they show, row by row.

    Attributes:
        images: ink from 0 to 16, FP32 of shape [n, 8, 8].
        labels: the digit that each picture shows, INT64 of shape [n].
    """

    images: np.ndarray
    labels: np.ndarray


def load_pictures() -> tuple[Pictures, Pictures]:
    """Return the 1,437 training pictures and the 360 held-out ones, which are every fifth picture."""
    digits = load_digits()
    images, labels = digits.images.astype(np.float32), digits.target.astype(np.int64)
    held_out = np.arange(len(labels)) % _HELD_OUT_EVERY == 0
    return Pictures(images[~held_out], labels[~held_out]), Pictures(images[held_out], labels[held_out])


def encode_png(image: np.ndarray) -> bytes:
    """Return the picture as a PNG file of one grey channel; ``image`` is whole levels of ink of shape [8, 8]."""
    file = io.BytesIO()
    Image.fromarray((image * GREY_PER_INK).astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
