"""The models that are measured, as the programs that do not import TensorFlow need to know them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PICTURE_SIZE: Final = 224
WORDS: Final = 8
MIXED_SIGNATURES: Final = tuple(f"part_{number}" for number in range(8))


@dataclass(frozen=True)
class Tensor:
    """An input or output; ``dims`` are its sizes without the batch dimension."""

    name: str
    datatype: str
    dims: tuple[int, ...]


def describe(tensor: Tensor) -> str:
    """Return a tensor as config.pbtxt writes it.

    perf_analyzer cannot send an input that has no dimension but the batch, and Triton cannot be told of one either: it
    gets one more, which a reshape takes away.
    """
    datatype = "STRING" if tensor.datatype == "BYTES" else tensor.datatype
    dims = ", ".join(map(str, tensor.dims)) or "1"
    reshape = "" if tensor.dims else " reshape { shape: [ ] }"
    return f'name: "{tensor.name}" data_type: TYPE_{datatype} dims: [ {dims} ]{reshape}'


@dataclass(frozen=True)
class Signature:
    """Every signature here takes one tensor and returns one."""

    input: Tensor
    output: Tensor


@dataclass(frozen=True)
class Model:
    """A SavedModel that ``clients.benchmarks.export`` makes.

    Attributes:
        name: its directory, and its name for clients.
        signatures: what it serves, by name.
    """

    name: str
    signatures: Mapping[str, Signature]


_FLOATS: Final = Tensor("x", "FP32", (4,))
_SCORES: Final = Signature(_FLOATS, Tensor("y", "FP32", (8,)))
_PICTURES: Final = Tensor("images", "UINT8", (PICTURE_SIZE, PICTURE_SIZE, 3))
_CLASSES: Final = Tensor("probabilities", "FP32", (1000,))
_JPEG: Final = Tensor("jpeg", "BYTES", ())


def _vision(name: str, embedding_size: int) -> Model:
    embedding = Tensor("embedding", "FP32", (embedding_size,))
    return Model(
        name,
        {
            "images": Signature(_PICTURES, _CLASSES),
            "embeddings": Signature(_PICTURES, embedding),
            "jpeg": Signature(_JPEG, _CLASSES),
        },
    )


MODELS: Final = {
    model.name: model
    for model in (
        Model("toy", {"scores": _SCORES, "doubled": Signature(_FLOATS, Tensor("y", "FP32", (4,)))}),
        Model("mixed", dict.fromkeys(MIXED_SIGNATURES, _SCORES)),
        Model("pictures", {"first_pixel": Signature(_PICTURES, Tensor("pixel", "UINT8", (3,)))}),
        Model(
            "strings",
            {"upper": Signature(Tensor("words", "BYTES", (WORDS,)), Tensor("upper", "BYTES", (WORDS,)))},
        ),
        _vision("efficientnet", 1280),
        _vision("resnet", 2048),
    )
}
