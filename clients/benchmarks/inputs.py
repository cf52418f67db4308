"""What is sent: random values, the same ones to every server."""

import base64
import io
import json
import struct
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from clients.benchmarks.models import PICTURE_SIZE, Tensor

_SEED: Final = 1
_WORD_LENGTH: Final = 16
_JPEG_BLOCKS: Final = 14


def make_row(tensor: Tensor) -> np.ndarray:
    """Return one row for an input, of shape ``tensor.dims``; BYTES are JPEG pictures if it is called so, else words."""
    random = np.random.default_rng(_SEED)
    if tensor.datatype == "FP32":
        return random.random(tensor.dims, np.float32)
    if tensor.datatype == "UINT8":
        return random.integers(0, 256, tensor.dims, np.uint8)
    if tensor.name == "jpeg":
        return np.array(_jpeg(random), dtype=object)
    words = [bytes(random.integers(97, 123, _WORD_LENGTH, np.uint8)) for _ in range(int(np.prod(tensor.dims)))]
    return np.array(words, dtype=object).reshape(tensor.dims)


def make_batch(tensor: Tensor, rows: int) -> np.ndarray:
    """Return an array of shape [rows, *tensor.dims], the row of ``make_row`` again and again, as perf_analyzer does."""
    return np.stack([make_row(tensor)] * rows)


def write_input_file(path: Path, tensor: Tensor) -> None:
    """Write the row in perf_analyzer's format: the tensor's raw content in base64, each string after its length."""
    row = make_row(tensor)
    strings = row.ravel().tolist() if row.dtype == object else None
    raw = row.tobytes() if strings is None else b"".join(struct.pack("<I", len(text)) + text for text in strings)
    path.write_text(json.dumps({"data": [{tensor.name: {"b64": base64.b64encode(raw).decode()}}]}))


def _jpeg(random: np.random.Generator) -> bytes:
    """Return a picture of coloured clouds: as many bytes as a photograph of its size, not those of noise."""
    blocks = random.integers(0, 256, (_JPEG_BLOCKS, _JPEG_BLOCKS, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(blocks).resize((PICTURE_SIZE, PICTURE_SIZE)).save(file, "JPEG")
    return file.getvalue()
