"""Finds out at load time whether the rows of a batch influence each other.

An open first dimension does not say that rows are independent: a model may subtract the mean of the batch. Such a
signature would answer a caller differently depending on who else asks, so its requests must run alone.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from types import MappingProxyType
from typing import Final

import numpy as np

from service.datatypes import BYTES
from service.errors import SignetError
from service.servable import Servable
from service.signature import OPEN, Effect, Signature, TensorSpec
from service.synthetic_inputs import random_values

_ROWS: Final = 3
_OPEN_SIZE: Final = 4
"""The size of open dimensions other than the first."""

# Joining may change the last bits of a float, in every batching server: other sizes take other code paths.
_TOLERANCE: Final = 1e-3
_HALF_TOLERANCE: Final = 5e-2
"""For FP16 and BF16, whose last bits are as large as 1e-3 and 8e-3."""

logger = logging.getLogger(__name__)

Arrays = Mapping[str, np.ndarray]


def probe_signatures(
    servable: Servable, *, model: str, rows: Mapping[str, Arrays | None] = MappingProxyType({})
) -> dict[str, Signature]:
    """Return the signatures of a servable, those whose rows mix marked as such, with a warning for each.

    Distinct random rows are run each alone, and then together. A difference that a second run alone does not show means
    that rows mix. Only pure signatures are probed, and of those that take strings, which cannot be made up, only the
    ones with rows to try.

    Args:
        servable: whose signatures are run.
        model: the model's name, for the log.
        rows: by signature, inputs in the model's shapes that are better than random ones: two rows at least, or None.
    """
    return {key: _probe(servable, signature, model, rows.get(key)) for key, signature in servable.signatures.items()}


def distinct_rows(samples: Iterable[Arrays]) -> Arrays | None:
    """Join rows that can show whether they influence each other; None when there are fewer than two different ones.

    Args:
        samples: inputs of one signature with a batch dimension; rows of other shapes than the first are left out.
    """
    chosen: list[Arrays] = []
    for sample in samples:
        for row in range(min(map(len, sample.values()), default=0)):
            one = {name: array[row : row + 1] for name, array in sample.items()}
            if len(chosen) < _ROWS and all(_can_stand_beside(one, other) for other in chosen):
                chosen.append(one)
    return {name: np.concatenate([one[name] for one in chosen]) for name in chosen[0]} if len(chosen) > 1 else None


def _can_stand_beside(one: Arrays, other: Arrays) -> bool:
    alike = {name: array.shape for name, array in one.items()} == {name: array.shape for name, array in other.items()}
    return alike and any(not np.array_equal(one[name], other[name]) for name in one)


def _probe(servable: Servable, signature: Signature, model: str, rows: Arrays | None) -> Signature:
    takes_strings = any(spec.datatype is BYTES for spec in signature.inputs)
    if signature.effect is not Effect.PURE or not signature.batchable or (takes_strings and rows is None):
        return signature
    try:
        mixing = _find_mixing(servable, signature, random_rows(signature) if rows is None else rows)
    except SignetError as error:
        logger.info("model '%s': rows of signature '%s' could not be probed: %s", model, signature.name, error)
        return signature
    if mixing is None:
        return signature
    logger.warning("model '%s': signature '%s' is not batched: %s", model, signature.name, mixing)
    return replace(signature, mixes_rows=mixing)


def _find_mixing(servable: Servable, signature: Signature, rows: Arrays) -> str | None:
    """Return which output shows that rows mix, and by how much; None when none does."""
    outputs = [spec.name for spec in signature.outputs]
    count = len(next(iter(rows.values())))

    def run(start: int, stop: int) -> Arrays:
        inputs = {name: array[start:stop] for name, array in rows.items()}
        return servable.run(signature.name, inputs, outputs)

    @cache
    def again(row: int) -> Arrays:
        return run(row, row + 1)

    alone = [run(row, row + 1) for row in range(count)]
    together = run(0, count)
    for spec in signature.outputs:
        name, tolerance = spec.name, _HALF_TOLERANCE if spec.datatype.name in ("FP16", "BF16") else _TOLERANCE
        if together[name].shape[:1] != (count,) or any(each[name].shape[:1] != (1,) for each in alone):
            return f"output '{name}' has shape {list(together[name].shape)} for {count} rows"
        for row in range(count):
            difference = relative_difference(alone[row][name], together[name][row : row + 1])
            if difference > tolerance >= relative_difference(alone[row][name], again(row)[name]):
                return f"rows mix: output '{name}' of a row differs by {difference:.3g} when it runs with others"
    return None


def random_rows(signature: Signature) -> Arrays:
    """Return rows for each input that is not optional, the same at every start."""
    random = np.random.default_rng(0)  # the same rows at every start, so that the verdict is the same
    return {
        spec.name: random_values(spec.datatype, _random_shape(spec), random)
        for spec in signature.inputs
        if not spec.optional
    }


def _random_shape(spec: TensorSpec) -> list[int]:
    shape = [_OPEN_SIZE if size == OPEN else size for size in spec.shape or ()]
    if spec.has_open_first_dimension:
        shape[0] = _ROWS
    return shape


def relative_difference(one: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference relative to the largest value; 1 for anything else that is not equal."""
    if one.shape != other.shape:
        return 1.0
    if one.dtype.kind in "OSUbiu":
        return 0.0 if np.array_equal(one, other) else 1.0
    first, second = one.astype(np.float64), other.astype(np.float64)
    if np.array_equal(first, second, equal_nan=True):
        return 0.0
    difference = np.abs(first - second)
    if not np.isfinite(difference).all():
        return 1.0
    return float(difference.max() / max(np.abs(first).max(), np.finfo(np.float32).tiny))
