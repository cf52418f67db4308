import base64
import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from clients.benchmarks.inputs import make_batch, make_row, write_input_file
from clients.benchmarks.models import MODELS, PICTURE_SIZE

INPUTS = {signature.input.name: signature.input for model in MODELS.values() for signature in model.signatures.values()}


@pytest.mark.parametrize("name", INPUTS)
def test_a_batch_has_the_tensors_shape_and_is_the_same_every_time(name):
    tensor = INPUTS[name]

    batch = make_batch(tensor, 3)

    assert batch.shape == (3, *tensor.dims)
    np.testing.assert_array_equal(batch[2], make_row(tensor))


def test_the_jpeg_input_is_a_jpeg_picture():
    with Image.open(io.BytesIO(make_row(INPUTS["jpeg"]).item())) as picture:
        assert picture.format == "JPEG"
        assert picture.size == (PICTURE_SIZE, PICTURE_SIZE)


def content(path, name):
    return base64.b64decode(json.loads(path.read_text())["data"][0][name]["b64"])


def test_the_input_file_holds_the_raw_values(tmp_path):
    write_input_file(tmp_path / "x.json", INPUTS["x"])

    np.testing.assert_array_equal(np.frombuffer(content(tmp_path / "x.json", "x"), np.float32), make_row(INPUTS["x"]))


def test_the_input_file_holds_each_string_after_its_length(tmp_path):
    write_input_file(tmp_path / "words.json", INPUTS["words"])

    raw = content(tmp_path / "words.json", "words")
    expected = b"".join(struct.pack("<I", len(word)) + word for word in make_row(INPUTS["words"]).tolist())
    assert raw == expected
