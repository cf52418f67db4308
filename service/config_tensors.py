"""Brings together the inputs and outputs that a configuration lists and those that a signature has.

A list in the configuration says what callers see: its order is theirs, and outputs or optional inputs that it leaves out
are not offered. It may narrow the signature (a size for an open dimension, a shape for an unknown one), never contradict
it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from protos.model_config_pb2 import DataType, ModelInput, ModelOutput
from service.errors import LoadError
from service.signature import OPEN, Effect, Signature, TensorSpec

Entry = ModelInput | ModelOutput


@dataclass(frozen=True)
class Pair:
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
    inputs: tuple[Pair, ...]
    outputs: tuple[Pair, ...]

    @property
    def dims_are_complete(self) -> bool:
        """Whether some configured dims have as many axes as the signature's tensor, so that none is left for a batch."""
        return any(
            pair.spec.shape is not None and pair.entry.dims and len(pair.entry.dims) == len(pair.spec.shape)
            for pair in (*self.inputs, *self.outputs)
        )

    @property
    def why_no_batch_dimension(self) -> str | None:
        """Why the tensors have no batch dimension in common, or None when they have."""
        shaped = replace(
            self.signature,
            inputs=tuple(map(_suppose_batched, self.inputs)),
            outputs=tuple(map(_suppose_batched, self.outputs)),
            effect=Effect.PURE,
            mixes_rows=None,
        )
        return shaped.why_not_batchable

    def narrow(self, *, batched: bool) -> Signature:
        """Return the signature as callers see it.

        Args:
            batched: whether configured dims leave out the batch dimension.

        Raises:
            LoadError: configured dims contradict the signature's shape; shows both.
        """
        return replace(
            self.signature,
            inputs=tuple(_narrow(pair, f"{self.place}: input", batched=batched) for pair in self.inputs),
            outputs=tuple(_narrow(pair, f"{self.place}: output", batched=batched) for pair in self.outputs),
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


def _pair(specs: tuple[TensorSpec, ...], entries: Sequence[Entry], empty: Entry, place: str) -> tuple[Pair, ...]:
    if not entries:
        return tuple(Pair(spec, empty) for spec in specs)
    by_name = {spec.name: spec for spec in specs}
    pairs = []
    for entry in entries:
        spec = by_name.pop(entry.name, None)
        if spec is None:
            raise LoadError(
                f"{place} '{entry.name}' of the configuration is not in the SavedModel, or is listed twice; the SavedModel "
                f"has {_listed(specs)}"
            )
        _check_entry(spec, entry, f"{place} '{entry.name}'")
        pairs.append(Pair(spec, entry))
    return tuple(pairs)


def _check_entry(spec: TensorSpec, entry: Entry, place: str) -> None:
    configured = DataType.Name(entry.data_type)
    if entry.data_type != DataType.TYPE_INVALID and configured != spec.datatype.config_name:
        raise LoadError(f"{place}: the configuration says {configured}, the SavedModel {spec.datatype.config_name}")
    if isinstance(entry, ModelInput) and entry.optional and not spec.optional:
        raise LoadError(f"{place}: the configuration calls it optional, but the SavedModel has no default value for it")
    for size in entry.dims:
        if size < 1 and size != OPEN:
            raise LoadError(f"{place}: dims must be 1 or more, or -1 for any size, but one of them is {size}")


def _listed(specs: Iterable[TensorSpec]) -> str:
    return ", ".join(map(str, specs)) or "none"


def _suppose_batched(pair: Pair) -> TensorSpec:
    """Return the spec with a shape also where only the configuration knows one."""
    if pair.spec.shape is None and pair.entry.dims:
        return replace(pair.spec, shape=(OPEN, *pair.entry.dims))
    return pair.spec


def _narrow(pair: Pair, place: str, *, batched: bool) -> TensorSpec:
    spec, dims = pair.spec, tuple(pair.entry.dims)
    if not dims:
        return spec
    shape = (OPEN, *dims) if batched else dims
    if not spec.accepts(shape):
        raise LoadError(
            f"{place} '{spec.name}': the configuration says {_shape(shape)}{_BATCHED if batched else _NOT_BATCHED}, "
            f"the SavedModel {_shape(spec.shape or ())}"
        )
    return replace(spec, shape=shape)


_BATCHED: Final = " (its dims behind the batch dimension, which they leave out when max_batch_size is above 0)"
_NOT_BATCHED: Final = " (its dims alone, since max_batch_size is 0)"


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, shape))}]"


def complete_entry(entry: Entry, spec: TensorSpec, *, batched: bool) -> None:
    """Fill an entry with what the signature says, and leave the rest of it (labels, format) as it is.

    Args:
        entry: changed in place.
        spec: as callers see it. An unknown shape is written as one open dimension, the nearest that dims can say.
        batched: whether dims leave out the batch dimension.
    """
    entry.name = spec.name
    entry.data_type = DataType.Value(spec.datatype.config_name)
    shape = (OPEN,) if spec.shape is None else spec.shape
    entry.dims[:] = shape[1:] if batched else shape
    if isinstance(entry, ModelInput):
        entry.optional = spec.optional
