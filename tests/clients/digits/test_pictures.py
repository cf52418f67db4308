import io

import numpy as np
from PIL import Image

from clients.digits.pictures import GREY_PER_INK, encode_png, load_pictures


def test_every_picture_is_either_for_training_or_held_out():
    training, held_out = load_pictures()
    assert (len(training.images), len(held_out.images)) == (1437, 360)
    assert len(np.unique(np.concatenate([training.images, held_out.images]), axis=0)) == 1797


def test_pictures_are_ink_from_0_to_16_in_the_dtypes_of_the_signatures():
    for pictures in load_pictures():
        assert pictures.images.dtype == np.float32
        assert pictures.labels.dtype == np.int64
        assert (pictures.images.min(), pictures.images.max()) == (0, 16)


def test_both_parts_show_all_ten_digits():
    for pictures in load_pictures():
        assert set(pictures.labels) == set(range(10))


def test_png_holds_each_level_of_ink():
    ink = np.arange(64, dtype=np.float32).reshape(8, 8) % 17
    with Image.open(io.BytesIO(encode_png(ink))) as picture:
        assert (picture.format, picture.mode) == ("PNG", "L")
        assert np.array_equal(np.asarray(picture), ink * GREY_PER_INK)
