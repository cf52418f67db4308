"""The requests that a configuration names for the time before the first one (``model_warmup``).

Source: Triton's model configuration; a sample holds one row, which is repeated to fill its ``batch_size``.
"""

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

import numpy as np

from protos.model_config_pb2 import DataType, ModelWarmup
from service import raw_tensor
from service.completed_config import CompletedConfig
from service.datatypes import BYTES, Datatype
from service.errors import InvalidArgumentError, LoadError
from service.plain_files import refuse_other_than_file
from service.signature import Signature, TensorSpec
from service.synthetic_inputs import random_values, zeros

WARM_UP_FILES: Final = "warmup"
"""The directory of a model that holds the files of its samples."""

MAX_SAMPLE_BYTES: Final = 2**30
"""Most that the inputs of a sample may take; more than most models ever see at once."""

logger = logging.getLogger(__name__)

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Sample:
    """A request to run before the first one comes.

    Attributes:
        name: as configured, for the log.
        inputs: in the shapes that callers see, with the batch dimension where there is one.
        count: how often to run it, at least once.
    """

    name: str
    inputs: Mapping[str, np.ndarray]
    count: int


def read_samples(config: CompletedConfig, directory: Path, *, model: str) -> dict[str, list[Sample]]:
    """Make the samples of every signature that has some.

    Args:
        config: says which they are.
        directory: the model's directory.
        model: its name, for errors.

    Returns:
        By signature: its samples in the order of the configuration.

    Raises:
        LoadError: a sample does not fit its signature, or a file cannot be read, leads out of the model's folder
            ``warmup`` or has another size; names sample and input, and shows both sides.
    """
    samples: dict[str, list[Sample]] = {}
    for name, signature in config.signatures.items():
        wanted = config.signature_config(name).model_warmup
        maker = _Maker(signature, config.max_batch_size(name), directory / WARM_UP_FILES, f"model '{model}'")
        if wanted:
            samples[name] = [maker.make(each) for each in wanted]
    return samples


@dataclass(frozen=True)
class _Maker:
    """Makes the samples of one signature."""

    signature: Signature
    max_batch_size: int
    directory: Path
    model: str

    def make(self, wanted: ModelWarmup) -> Sample:
        place = f"{self.model}, signature '{self.signature.name}', warm-up sample '{wanted.name}'"
        rows = self._rows(wanted, place)
        for name in wanted.inputs:
            if self.signature.input(name) is None:
                raise LoadError(f"{place}: there is no input '{name}'; {self._inputs()}")
        missing = [spec for spec in self.signature.inputs if not spec.optional and spec.name not in wanted.inputs]
        if missing:
            raise LoadError(f"{place}: input {missing[0]} is missing; {self._inputs()}")
        inputs = {
            spec.name: self._input(wanted.inputs[spec.name], spec, rows, f"{place}, input '{spec.name}'")
            for spec in self.signature.inputs
            if spec.name in wanted.inputs
        }
        return Sample(wanted.name, inputs, wanted.count or 1)

    def _inputs(self) -> str:
        return "the signature takes " + (", ".join(map(str, self.signature.inputs)) or "none")

    def _rows(self, wanted: ModelWarmup, place: str) -> int | None:
        """Return the number of rows, or None where tensors have no batch dimension."""
        rows = wanted.batch_size or 1
        if rows > max(1, self.max_batch_size):
            raise LoadError(f"{place}: batch_size is {rows}, but max_batch_size is {self.max_batch_size}")
        return rows if self.max_batch_size else None

    def _input(self, wanted: ModelWarmup.Input, spec: TensorSpec, rows: int | None, place: str) -> np.ndarray:
        if DataType.Name(wanted.data_type) != spec.datatype.config_name:
            raise LoadError(
                f"{place}: the sample says {DataType.Name(wanted.data_type)}, the signature {spec.datatype.config_name}"
            )
        dims = tuple(wanted.dims)
        shape = dims if rows is None else (rows, *dims)
        if min(dims, default=0) < 0 or not spec.accepts(shape):
            raise LoadError(f"{place}: the sample has shape {list(shape)}, the signature takes {spec}")
        nbytes = math.prod(shape) * spec.datatype.dtype.itemsize
        if nbytes > MAX_SAMPLE_BYTES:
            raise LoadError(f"{place}: takes {nbytes} bytes, more than {MAX_SAMPLE_BYTES}")
        kind = wanted.WhichOneof("input_data_type")
        if kind is None:
            raise LoadError(f"{place}: says neither zero_data nor random_data nor input_data_file")
        if kind == "input_data_file":
            return _read(self.directory, wanted.input_data_file, spec.datatype, dims, rows, place)
        if kind == "random_data" and spec.datatype is not BYTES:
            # The same ones at every start, so that a failure stays one.
            return random_values(spec.datatype, shape, np.random.default_rng(0))
        return zeros(spec.datatype, shape)


def _read(directory: Path, name: str, datatype: Datatype, dims: Dims, rows: int | None, place: str) -> np.ndarray:
    """Return the tensor in a file: all rows, or one that is repeated."""
    data = _read_file(directory, name, place)
    if rows is None:
        return _decode(datatype, dims, data, f"{place}: file '{name}'")
    one = (1, *dims)
    try:
        return np.repeat(_decode(datatype, one, data, f"{place}: file '{name}'"), rows, axis=0)
    except LoadError:
        if rows == 1:
            raise
        return _decode(datatype, (rows, *dims), data, f"{place}: file '{name}' holds neither one row nor {rows}")


def _read_file(directory: Path, name: str, place: str) -> bytes:
    if not name or PurePath(name).is_absolute() or ".." in PurePath(name).parts:
        raise LoadError(f"{place}: input_data_file '{name}' must lie in {directory}")
    path = directory / name
    refuse_other_than_file(path, f"{place}: ")
    try:
        size = path.stat().st_size
        if size > MAX_SAMPLE_BYTES:
            raise LoadError(f"{place}: {path} has {size} bytes, more than {MAX_SAMPLE_BYTES}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise LoadError(f"{place}: {path} cannot be read: {error}") from error


def _decode(datatype: Datatype, shape: Dims, data: bytes, place: str) -> np.ndarray:
    try:
        if datatype is BYTES:
            return raw_tensor.decode_bytes(shape, data)
        return raw_tensor.decode_fixed(datatype, shape, data)
    except InvalidArgumentError as error:
        raise LoadError(f"{place}: does not hold {datatype.name}{list(shape)}: {error}") from error
