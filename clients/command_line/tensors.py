"""Tensors as people write and read them: values on the command line, files, tables and JSON."""

import base64
import binascii
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from tritonclient.utils import triton_to_np_dtype

_OPEN: Final = -1
_PICTURES: Final = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
_MODES: Final = {1: "L", 3: "RGB", 4: "RGBA"}


class InputError(Exception):
    """What was given does not make a tensor; the text names the input."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output as the server describes it.

    Attributes:
        name: its name.
        datatype: such as FP32 or BYTES.
        shape: one number per dimension, -1 for any size.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.datatype}[{','.join(map(str, self.shape))}]"


def read_inputs(given: Sequence[str], specs: Mapping[str, TensorSpec], standard_input: Any) -> dict[str, np.ndarray]:
    """Return the tensors that the values of ``--input`` stand for.

    Args:
        given: each ``NAME=VALUE``, ``NAME=@FILE``, or ``-`` for a JSON object of all inputs on standard input.
        specs: the inputs that there are, by name.
        standard_input: read at most once.

    Raises:
        InputError: one of them is none; the text says which and why.
    """
    arrays: dict[str, np.ndarray] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if text == "-":
            arrays |= {
                name: to_array(value, _find(specs, name)) for name, value in _read_object(standard_input).items()
            }
        elif not equals:
            raise InputError(f"--input {text}: write NAME=VALUE, NAME=@FILE, or - for JSON on standard input")
        else:
            spec = _find(specs, name)
            arrays[name] = _read_file(Path(value[1:]), spec) if value.startswith("@") else _read_text(value, spec)
    return arrays


def to_array(value: Any, spec: TensorSpec) -> np.ndarray:
    """Return a JSON value as a tensor. One row may be written without the list around it.

    Raises:
        InputError: it is not of the input's datatype, or not rectangular.
    """
    if spec.datatype == "BYTES":
        return _with_rows(_to_bytes(value, spec), spec)
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"input '{spec}': the lists in it differ in length") from None
    return _with_rows(_cast(array, spec), spec)


def to_json(array: np.ndarray) -> Any:
    """Return a tensor as JSON's types: bytes that are no text as ``{"b64": ...}``, NaN and infinities as texts."""
    if array.dtype == np.object_:
        return _map_nested(array.tolist(), _bytes_to_json)
    if array.dtype.kind in "biu":
        return array.tolist()
    return _map_nested(array.astype(np.float64).tolist(), lambda value: value if np.isfinite(value) else str(value))


def random_input(spec: TensorSpec, rows: int, random: np.random.Generator) -> np.ndarray:
    """Return values to measure with: floats in [0, 1), small whole numbers, short texts; ``rows`` for an open axis 0.

    Raises:
        InputError: another dimension is open, so that its size must be given.
    """
    first, inner = spec.shape[:1], spec.shape[1:]
    if _OPEN in inner:
        raise InputError(f"input '{spec}' has open dimensions; give it with --input {spec.name}=...")
    shape = (*(rows if size == _OPEN else size for size in first), *inner)
    if spec.datatype == "BYTES":
        return np.full(shape, b"0", dtype=np.object_)
    dtype = triton_to_np_dtype(spec.datatype)
    if np.dtype(dtype).kind in "biu":
        return random.integers(0, 2, shape).astype(dtype)
    return random.random(shape).astype(dtype)


def _find(specs: Mapping[str, TensorSpec], name: str) -> TensorSpec:
    if name not in specs:
        raise InputError(f"there is no input '{name}'; there are: {', '.join(map(str, specs.values())) or 'none'}")
    return specs[name]


def _read_object(standard_input: Any) -> dict[str, Any]:
    try:
        value = json.load(standard_input)
    except ValueError as error:
        raise InputError(f"--input -: standard input is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError("--input -: standard input is no JSON object of inputs by name")
    return value


def _read_text(text: str, spec: TensorSpec) -> np.ndarray:
    if spec.datatype == "BYTES" and not text.startswith(("[", "{")):
        return to_array(text, spec)
    try:
        value = json.loads(text)
    except ValueError:
        raise InputError(
            f"input '{spec}': '{text[:40]}' is no JSON value; numbers are written as 1.5 or [1, 2], files as @FILE"
        ) from None
    return to_array(value, spec)


def _read_file(path: Path, spec: TensorSpec) -> np.ndarray:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"input '{spec}': {path}: {error.strerror}") from None
    if path.suffix == ".npy":
        return _read_npy(content, path, spec)
    if path.suffix == ".json":
        return _read_text(content.decode(errors="replace").strip(), spec)
    if spec.datatype == "BYTES":
        return _with_rows(_to_bytes(content, spec), spec)
    if path.suffix.lower() in _PICTURES:
        return _read_picture(content, path, spec)
    raise InputError(f"input '{spec}': {path} is neither .npy nor .json nor a picture")


def _read_npy(content: bytes, path: Path, spec: TensorSpec) -> np.ndarray:
    try:
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except ValueError as error:
        raise InputError(f"input '{spec}': {path}: {error}") from None
    if spec.datatype == "BYTES":
        return _with_rows(_to_bytes(array.tolist(), spec), spec)
    return _with_rows(_cast(array, spec), spec)


def _read_picture(content: bytes, path: Path, spec: TensorSpec) -> np.ndarray:
    """Return levels from 0 to 255, [rows,] height, width[, channels], scaled to the size that the shape fixes."""
    try:
        from PIL import Image, UnidentifiedImageError  # noqa: PLC0415  # only pictures need it
    except ImportError:
        raise InputError(f"{path}: pictures need the package pillow") from None
    height, width, channels = _picture_shape(spec)
    if channels is not None and channels not in _MODES:
        raise InputError(f"input '{spec}': a picture has 1, 3 or 4 channels in the last dimension")
    try:
        picture = Image.open(io.BytesIO(content)).convert(_MODES[channels or 1])
    except (UnidentifiedImageError, OSError):
        raise InputError(f"input '{spec}': {path} is no picture that pillow can read") from None
    size = (picture.width if width == _OPEN else width, picture.height if height == _OPEN else height)
    array = np.asarray(picture if picture.size == size else picture.resize(size))
    return _with_rows(_cast(array[..., np.newaxis] if channels == 1 else array, spec), spec)


def _picture_shape(spec: TensorSpec) -> tuple[int, int, int | None]:
    """Return height, width and channels; no channels for a grey picture without that dimension."""
    shape = spec.shape[1:] if len(spec.shape) > 2 and spec.shape[0] == _OPEN else spec.shape
    if len(shape) == 2:
        return (*shape, None)
    if len(shape) == 3:
        return shape[0], shape[1], shape[2] if shape[2] != _OPEN else 3
    raise InputError(f"input '{spec}' does not have the shape of a picture: [rows,] height, width [, channels]")


def _cast(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    if array.dtype.kind not in "biuf":
        raise InputError(f"input '{spec}' takes numbers, not {array.ravel()[:1].tolist()}")
    dtype = np.dtype(triton_to_np_dtype(spec.datatype))
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    if dtype.kind in "biu" and not np.array_equal(cast, array):
        raise InputError(f"input '{spec}': there are values that are no {spec.datatype}")
    return cast


def _to_bytes(value: Any, spec: TensorSpec) -> np.ndarray:
    array = np.asarray(value, dtype=np.object_)
    encoded = np.empty(array.shape, dtype=np.object_)
    for index, element in np.ndenumerate(array):
        encoded[index] = _one_bytes(element, spec)
    return encoded


def _one_bytes(element: Any, spec: TensorSpec) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str):
        return element.encode()
    if isinstance(element, dict) and set(element) == {"b64"}:
        try:
            return base64.b64decode(element["b64"], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise InputError(f"input '{spec}': a b64 value is not base64") from None
    raise InputError(f"input '{spec}' takes texts or {{\"b64\": ...}}, not {element!r:.40}")


def _with_rows(array: np.ndarray, spec: TensorSpec) -> np.ndarray:
    """Put one row into a list of rows where the shape wants one."""
    is_one_row = spec.shape[:1] == (_OPEN,) and array.ndim == len(spec.shape) - 1
    return array[np.newaxis] if is_one_row else array


def _bytes_to_json(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode()}


def _map_nested(value: Any, function: Any) -> Any:
    return [_map_nested(each, function) for each in value] if isinstance(value, list) else function(value)
