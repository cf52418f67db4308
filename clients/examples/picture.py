"""A handwritten digit to send, so that no example needs a file."""

from typing import Final

import numpy as np

_INK: Final = """
    .  .  5 13  9  1  .  .
    .  . 13 15 10 15  5  .
    .  3 15  2  . 11  8  .
    .  4 12  .  .  8  8  .
    .  5  8  .  .  9  8  .
    .  4 11  .  1 12  7  .
    .  2 14  5 10 12  .  .
    .  .  6 13 10  .  .  .
"""

ZERO: Final = np.array([0 if ink == "." else int(ink) for ink in _INK.split()], np.float32).reshape(1, 8, 8)
"""One picture of a zero, ink from 0 to 16, FP32 [1, 8, 8]."""
