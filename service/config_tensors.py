"""Brings together the inputs and outputs that a configuration lists and those that a signature has.

A list in the configuration says what callers see: its order is theirs, and outputs or optional inputs that it leaves
out are not offered. It may narrow the signature (a size for an open dimension, a shape for an unknown one), never
contradict it. With ``reshape``, callers see the dims, and the model's tensor has the shape that ``reshape`` names.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from protos.model_config_pb2 import DataType, ModelInput, ModelOutput
from service.errors import LoadError
from service.signature import OPEN, Effect, Signature, TensorSpec

Entry = TypeVar("Entry", ModelInput, ModelOutput)


@dataclass(frozen=True)
class Pair(Generic[Entry]):
    """A tensor of the signature and its entry in the configuration, which is empty where nothing is configured."""

    spec: TensorSpec
    entry: Entry


@dataclass(frozen=True)
class PairedSignature:
    """A signature whose tensors were found in the configuration.

    Attributes:
        place: model and signature, for errors.
        signature: as the SavedModel has it.
        inputs: those that callers see, in their order.
        outputs: likewise.
    """

    place: str
    signature: Signature
    inputs: tuple[Pair[ModelInput], ...]
    outputs: tuple[Pair[ModelOutput], ...]

    @property
    def dims_are_complete(self) -> bool:
        """Whether some configured dims have as many axes as the signature's tensor: none is left for a batch."""
        dims = [(pair.spec, _model_dims(pair.entry)) for pair in self.inputs]
        dims += [(pair.spec, _model_dims(pair.entry)) for pair in self.outputs]
        return any(
            spec.shape is not None and len(given) == len(spec.shape) for spec, given in dims if given is not None
        )

    @property
    def may_be_batched(self) -> bool:
        """Whether requests may share a run once dims leave out the batch dimension."""
        return self._supposed_batched.batchable

    @property
    def why_no_batch_dimension(self) -> str | None:
        """Why the tensors have no batch dimension in common, or None when they have.

        A signature with one may still be unfit for sharing runs, because it writes or mixes rows.
        """
        return replace(self._supposed_batched, effect=Effect.PURE, mixes_rows=None).why_not_batchable

    @property
    def _supposed_batched(self) -> Signature:
        return replace(
            self.signature,
            inputs=tuple(_suppose_batched(pair.spec, _model_dims(pair.entry)) for pair in self.inputs),
            outputs=tuple(_suppose_batched(pair.spec, _model_dims(pair.entry)) for pair in self.outputs),
        )

    def narrow(self, *, batched: bool) -> Signature:
        """Return the signature as callers see it.

        Args:
            batched: whether configured dims leave out the batch dimension.

        Raises:
            LoadError: configured dims contradict the signature's shape; shows both.
        """
        return replace(
            self.signature,
            inputs=tuple(
                _narrow(pair.spec, pair.entry, f"{self.place}: input", batched=batched) for pair in self.inputs
            ),
            outputs=tuple(
                _narrow(pair.spec, pair.entry, f"{self.place}: output", batched=batched) for pair in self.outputs
            ),
        )


def pair_signature(
    signature: Signature, inputs: Sequence[ModelInput], outputs: Sequence[ModelOutput], *, place: str
) -> PairedSignature:
    """Find the tensors of a signature in the configuration.

    Args:
        signature: as the SavedModel has it.
        inputs: those configured for it; none means all that it has.
        outputs: likewise.
        place: model and signature, for errors.

    Raises:
        LoadError: a configured tensor is not there, is listed twice or has another datatype, or an input that every
            request must send is left out.
    """
    paired = PairedSignature(
        place,
        signature,
        _pair(signature.inputs, inputs, ModelInput(), f"{place}: input"),
        _pair(signature.outputs, outputs, ModelOutput(), f"{place}: output"),
    )
    listed = {pair.spec.name for pair in paired.inputs}
    for spec in signature.inputs:
        if spec.name not in listed and not spec.optional:
            raise LoadError(f"{place}: the configuration leaves out input {spec}, which every request must send")
    return paired


def _pair(specs: tuple[TensorSpec, ...], entries: Sequence[Entry], empty: Entry, place: str) -> tuple[Pair[Entry], ...]:
    if not entries:
        return tuple(Pair(spec, empty) for spec in specs)
    by_name = {spec.name: spec for spec in specs}
    names = [entry.name for entry in entries]
    for name in names:
        if names.count(name) > 1:
            raise LoadError(f"{place} '{name}' is listed {names.count(name)} times in the configuration")
        if name not in by_name:
            raise LoadError(
                f"{place} '{name}' of the configuration is not in the SavedModel, which has {_listed(specs)}"
            )
    for entry in entries:
        _check_entry(by_name[entry.name], entry, f"{place} '{entry.name}'")
    return tuple(Pair(by_name[entry.name], entry) for entry in entries)


def _check_entry(spec: TensorSpec, entry: ModelInput | ModelOutput, place: str) -> None:
    configured = DataType.Name(entry.data_type)
    if entry.data_type != DataType.TYPE_INVALID and configured != spec.datatype.config_name:
        raise LoadError(f"{place}: the configuration says {configured}, the SavedModel {spec.datatype.config_name}")
    if isinstance(entry, ModelInput) and entry.optional and not spec.optional:
        raise LoadError(f"{place}: the configuration calls it optional, but the SavedModel has no default value for it")
    for size in entry.dims:
        if size < 1 and size != OPEN:
            raise LoadError(f"{place}: dims must be 1 or more, or -1 for any size, but one of them is {size}")
    if entry.HasField("reshape"):
        _check_reshape(entry.dims, entry.reshape.shape, place)


def _check_reshape(dims: Sequence[int], shape: Sequence[int], place: str) -> None:
    if not dims or any(size < 1 and size != OPEN for size in shape) or _fixed_parts(dims) != _fixed_parts(shape):
        raise LoadError(
            f"{place}: reshape keeps the number of elements, before, between and behind open dimensions, but the "
            f"configuration says dims {list(dims)} and reshape {list(shape)}"
        )


def _fixed_parts(dims: Sequence[int]) -> list[int]:
    """Return the elements before the first open dimension, from there to the next one, and so on."""
    parts = [1]
    for size in dims:
        if size == OPEN:
            parts.append(1)
        else:
            parts[-1] *= size
    return parts


def _listed(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(map(str, specs)) or "none"


def _model_dims(entry: ModelInput | ModelOutput) -> tuple[int, ...] | None:
    """Return the dims that a configuration says the model's tensor has, or None when it says nothing."""
    if entry.HasField("reshape"):
        return tuple(entry.reshape.shape)
    return tuple(entry.dims) or None


def _suppose_batched(spec: TensorSpec, dims: tuple[int, ...] | None) -> TensorSpec:
    """Return the spec with a shape also where only the configuration knows one."""
    return replace(spec, shape=(OPEN, *dims)) if spec.shape is None and dims is not None else spec


def _narrow(spec: TensorSpec, entry: ModelInput | ModelOutput, place: str, *, batched: bool) -> TensorSpec:
    dims = _model_dims(entry)
    if dims is None:
        return spec
    batch: tuple[int, ...] = (OPEN,) if batched else ()
    shape = (*batch, *dims)
    if not spec.accepts(shape):
        why = "its dims behind the batch dimension, which they leave out" if batched else "its dims, without batching"
        raise LoadError(
            f"{place} '{spec.name}': the configuration says shape {list(shape)} ({why}), the SavedModel "
            f"{list(spec.shape or ())}"
        )
    return replace(spec, shape=(*batch, *entry.dims))


def complete_entry(entry: Entry, spec: TensorSpec, *, batched: bool) -> Entry:
    """Return an entry filled with what the signature says; the rest of it (labels, format) stays as it is.

    Args:
        entry: as configured.
        spec: as callers see it. An unknown shape is written as one open dimension, the nearest that dims can say.
        batched: whether dims leave out the batch dimension.
    """
    shape = (OPEN,) if spec.shape is None else spec.shape
    dims = shape[1:] if batched else shape
    completed = type(entry)(name=spec.name, data_type=spec.datatype.config_name, dims=() if entry.dims else dims)
    completed.MergeFrom(entry)
    if isinstance(completed, ModelInput):
        completed.optional = spec.optional
    return completed
