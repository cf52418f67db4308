"""Runs every signature before the first request does, so that no caller pays for what TensorFlow sets up lazily."""

import logging
import math
import time
from typing import Final

import numpy as np

from service.datatypes import BYTES
from service.errors import SignetError
from service.model_version import ModelVersion, ServedSignature
from service.signature import OPEN, Effect, TensorSpec

# A model that says 2^31-1 for "no limit" means no such batch. So much is also more than most models ever see at once.
_MAX_INPUT_BYTES: Final = 2**30

logger = logging.getLogger(__name__)


def warm_up(loaded: ModelVersion) -> None:
    """Run each signature that writes nothing with zeros (strings: empty), at one row and at the largest batch.

    A signature that zeros do not suit, such as one that decodes pictures, is left as it is, and the log says so. So is
    the largest batch where it would take more memory than any is likely to.
    """
    for served in loaded.signatures.values():
        if served.signature.effect is Effect.WRITING:
            continue
        started = time.monotonic()
        try:
            for rows in _sizes(loaded, served):
                _run(loaded, served, rows)
        except SignetError as error:
            # Strings have a meaning that only the model knows: that the empty one does not suit it is no surprise.
            takes_strings = any(spec.datatype is BYTES for spec in served.signature.inputs)
            logger.log(
                logging.INFO if takes_strings else logging.WARNING,
                "model '%s' version %d: no warm-up of signature '%s', zeros do not suit it: %s",
                loaded.name,
                loaded.version,
                served.signature.name,
                error,
            )
        else:
            logger.debug("warmed up signature '%s' in %.3f s", served.signature.name, time.monotonic() - started)


def _sizes(loaded: ModelVersion, served: ServedSignature) -> list[int]:
    """Return the numbers of rows to run."""
    largest = served.max_batch_size or 1
    nbytes = sum(_nbytes(spec, largest) for spec in served.signature.inputs if not spec.optional)
    if largest > 1 and nbytes > _MAX_INPUT_BYTES:
        logger.info(
            "model '%s' version %d: signature '%s' is warmed up with one row alone; %d rows would take %d bytes",
            loaded.name,
            loaded.version,
            served.signature.name,
            largest,
            nbytes,
        )
        return [1]
    return sorted({1, largest})


def _run(loaded: ModelVersion, served: ServedSignature, rows: int) -> None:
    signature = served.signature
    inputs = {spec.name: _zeros(spec, rows) for spec in signature.inputs if not spec.optional}
    outputs = [spec.name for spec in signature.outputs]
    loaded.run(signature.name, inputs, outputs)


def _zeros(spec: TensorSpec, rows: int) -> np.ndarray:
    """Return zeros of a shape that fits: ``rows`` along an open first axis, 1 along every other open axis."""
    shape = _shape(spec, rows)
    if spec.datatype is BYTES:
        return np.full(shape, b"", BYTES.dtype)
    return np.zeros(shape, spec.datatype.dtype)


def _nbytes(spec: TensorSpec, rows: int) -> int:
    return math.prod(_shape(spec, rows)) * spec.datatype.dtype.itemsize


def _shape(spec: TensorSpec, rows: int) -> list[int]:
    shape = [1 if size == OPEN else size for size in spec.shape or ()]
    if spec.has_open_first_dimension:
        shape[0] = rows
    return shape
