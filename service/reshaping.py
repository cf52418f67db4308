"""Tensors that callers see in another shape than the model: ``reshape`` in a configuration.

Triton's configurations cannot write a tensor without dims behind the batch dimension, so they write
``dims: [ 1 ] reshape { shape: [ ] }``: callers send [rows, 1], the model takes [rows].
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from protos.model_config_pb2 import ModelInput, ModelOutput, SignatureConfig

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Reshaping:
    """What has another shape in the model. All dims are fixed sizes.

    Attributes:
        inputs: by name, the dims that the model takes.
        outputs: by name, the dims that callers see.
        batched: whether dims leave out the batch dimension, which stays as it is.
    """

    inputs: Mapping[str, Dims]
    outputs: Mapping[str, Dims]
    batched: bool

    @classmethod
    def of(cls, config: SignatureConfig) -> Self:
        """Return what a completed configuration of a signature asks for."""
        return cls(
            inputs={entry.name: tuple(entry.reshape.shape) for entry in _reshaped(config.input)},
            outputs={entry.name: tuple(entry.dims) for entry in _reshaped(config.output)},
            batched=config.max_batch_size > 0,
        )

    def to_model(self, inputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the inputs of callers in the shapes of the model; they share their memory."""
        return self._reshape(inputs, self.inputs) if self.inputs else inputs

    def to_callers(self, outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Return the outputs of the model in the shapes that callers see; they share their memory."""
        return self._reshape(outputs, self.outputs) if self.outputs else outputs

    def _reshape(self, arrays: Mapping[str, np.ndarray], dims: Mapping[str, Dims]) -> dict[str, np.ndarray]:
        return {
            name: array.reshape((len(array), *dims[name]) if self.batched else dims[name]) if name in dims else array
            for name, array in arrays.items()
        }


def _reshaped(entries: Iterable[ModelInput] | Iterable[ModelOutput]) -> Iterable[ModelInput | ModelOutput]:
    return [entry for entry in entries if entry.HasField("reshape")]
