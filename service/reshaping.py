"""Tensors that callers see in another shape than the model: ``reshape`` in a configuration.

Triton's configurations cannot write a tensor without dims behind the batch dimension, so they write
``dims: [ 1 ] reshape { shape: [ ] }``: callers send [rows, 1], the model takes [rows].
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from protos.model_config_pb2 import ModelInput, ModelOutput, SignatureConfig
from service.signature import OPEN

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """From which dims to which others a tensor goes; both have as many open dimensions, in the same order."""

    before: Dims
    after: Dims

    def apply(self, array: np.ndarray, kept: int) -> np.ndarray:
        """Return the array in the other shape, in the same memory.

        Args:
            array: has the dims ``before`` behind ``kept`` others.
            kept: dimensions that stay as they are.
        """
        sizes = array.shape[kept:]
        open_sizes = (size for size, dim in zip(sizes, self.before, strict=False) if dim == OPEN)
        after = (next(open_sizes) if dim == OPEN else dim for dim in self.after)
        return array.reshape((*array.shape[:kept], *after))


@dataclass(frozen=True)
class Reshaping:
    """What has another shape in the model.

    Attributes:
        inputs: by name, from the dims that callers send to those that the model takes.
        outputs: by name, from the dims that the model gives to those that callers see.
        batched: whether dims leave out the batch dimension, which stays as it is.
    """

    inputs: Mapping[str, Change]
    outputs: Mapping[str, Change]
    batched: bool

    @classmethod
    def of(cls, config: SignatureConfig) -> Self:
        """Return what a completed configuration of a signature asks for."""
        return cls(
            inputs={entry.name: Change(seen, models) for entry, seen, models in _reshaped(config.input)},
            outputs={entry.name: Change(models, seen) for entry, seen, models in _reshaped(config.output)},
            batched=config.max_batch_size > 0,
        )

    def to_model(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the inputs of callers in the shapes of the model; they share their memory."""
        return self._reshape(inputs, self.inputs) if self.inputs else inputs

    def to_callers(self, outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the outputs of the model in the shapes that callers see; they share their memory."""
        return self._reshape(outputs, self.outputs) if self.outputs else outputs

    def _reshape(self, arrays: Mapping[str, np.ndarray], changes: Mapping[str, Change]) -> dict[str, np.ndarray]:
        return {
            name: changes[name].apply(array, int(self.batched)) if name in changes else array
            for name, array in arrays.items()
        }


def _reshaped(
    entries: Iterable[ModelInput] | Iterable[ModelOutput],
) -> Iterator[tuple[ModelInput | ModelOutput, Dims, Dims]]:
    """Yield entries with ``reshape``, with the dims that callers see and those of the model."""
    for entry in entries:
        if entry.HasField("reshape"):
            yield entry, tuple(entry.dims), tuple(entry.reshape.shape)
