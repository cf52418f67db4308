"""Runs every signature before the first request does, so that no caller pays for what TensorFlow sets up lazily."""

import logging
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

import numpy as np

from batching.options import Joining
from service.datatypes import BYTES
from service.errors import SignetError
from service.model_version import ModelVersion, ServedSignature
from service.signature import OPEN, Effect, TensorSpec
from service.synthetic_inputs import zeros
from service.warm_up_samples import Sample

# A model that says 2^31-1 for "no limit" means no such batch. So much is also more than most models ever see at once.
_MAX_INPUT_BYTES: Final = 2**30

logger = logging.getLogger(__name__)

Samples = Mapping[str, Sequence[Sample]]


@dataclass(frozen=True)
class _Run:
    """One run of a warm-up; ``what`` names its data in the log."""

    served: ServedSignature
    what: str
    inputs: Mapping[str, np.ndarray]


def warm_up(loaded: ModelVersion, samples: Samples, timeout_s: float) -> None:
    """Run each signature that writes nothing: its samples, then the sizes of batches that requests can make.

    Sizes are filled with the first row of a sample, or with zeros (strings: empty). A signature that its data does not
    suit, such as one that decodes pictures, is left as it is, and the log says so. So is a size that would take more
    memory than any batch is likely to.

    Args:
        loaded: not yet seen by requests.
        samples: by signature.
        timeout_s: after so many seconds the rest is left out; the run in progress, which nothing can stop, ends behind
            the caller's back. 0 for no warm-up at all.
    """
    if not timeout_s:
        return
    gave_up = threading.Event()
    executor = ThreadPoolExecutor(1, thread_name_prefix=f"warm-up-{loaded.name}-{loaded.version}")
    running = executor.submit(_WarmUp(loaded, samples, gave_up).run)
    executor.shutdown(wait=False)
    try:
        running.result(timeout_s)
    except TimeoutError:
        gave_up.set()
        logger.warning(
            "model '%s' version %d: the warm-up is given up after %g s; what was not run yet is slower the first time",
            loaded.name,
            loaded.version,
            timeout_s,
        )
        running.add_done_callback(_log_defect)


def _log_defect(ended: Future[None]) -> None:
    error = ended.exception()
    if error is not None:
        logger.error("unexpected error in a warm-up that was given up", exc_info=error)


class _WarmUp:
    """The runs of one version, in the thread that is given up when they take too long."""

    def __init__(self, loaded: ModelVersion, samples: Samples, gave_up: threading.Event) -> None:
        self._loaded = loaded
        self._samples = samples
        self._gave_up = gave_up
        self._unsuited: set[str] = set()

    def run(self) -> None:
        started = time.monotonic()
        runs = 0
        for run in self._runs():
            if self._gave_up.is_set():
                return
            self._run(run)
            runs += 1
        logger.debug("warmed up model '%s' in %d runs, %.3f s", self._loaded.name, runs, time.monotonic() - started)

    def _runs(self) -> Iterator[_Run]:
        """Yield what is to be run, the most useful first, since time may run out."""
        warmed = list(filter(self._may_run, self._loaded.signatures.values()))
        for served in warmed:
            for sample in self._samples.get(served.signature.name, ()):
                for _ in range(sample.count):
                    yield _Run(served, f"sample '{sample.name}'", sample.inputs)
        for turn in zip_longest(*map(self._sizes, warmed)):
            for served, rows in zip(warmed, turn, strict=True):
                if rows is not None and served.signature.name not in self._unsuited:
                    yield _Run(served, f"{rows} rows of warm-up data", self._fill(served, rows))

    def _may_run(self, served: ServedSignature) -> bool:
        writes = served.signature.effect is Effect.WRITING
        if writes and served.signature.name in self._samples:
            logger.warning(
                "model '%s' version %d: the samples of signature '%s' are not run, because it writes",
                self._loaded.name,
                self._loaded.version,
                served.signature.name,
            )
        return not writes

    def _sizes(self, served: ServedSignature) -> list[int]:
        """Return the numbers of rows to run: one, the largest, then the others that are asked for."""
        options = served.options
        sizes = dict.fromkeys((1, served.max_batch_size or 1))
        if options.joining is Joining.JOIN:
            sizes |= dict.fromkeys(options.preferred_batch_size)
            sizes = dict.fromkeys(map(options.padded_size, sizes)) | dict.fromkeys(options.allowed_batch_sizes)
        if served.signature.name in self._samples and not served.max_batch_size:
            return []  # the samples were all that can be run
        return [rows for rows in sizes if rows == 1 or self._fits(served, rows)]

    def _fits(self, served: ServedSignature, rows: int) -> bool:
        nbytes = sum(_nbytes(spec, rows) for spec in served.signature.inputs if not spec.optional)
        if nbytes > _MAX_INPUT_BYTES:
            logger.info(
                "model '%s' version %d: signature '%s' is not warmed up with %d rows, which would take %d bytes",
                self._loaded.name,
                self._loaded.version,
                served.signature.name,
                rows,
                nbytes,
            )
        return nbytes <= _MAX_INPUT_BYTES

    def _fill(self, served: ServedSignature, rows: int) -> Mapping[str, np.ndarray]:
        """Return inputs of so many rows: the first row of a sample again and again, else zeros."""
        samples = self._samples.get(served.signature.name, ())
        if samples:
            return {name: np.repeat(array[:1], rows, axis=0) for name, array in samples[0].inputs.items()}
        inputs = [spec for spec in served.signature.inputs if not spec.optional]
        return {spec.name: zeros(spec.datatype, _shape(spec, rows)) for spec in inputs}

    def _run(self, run: _Run) -> None:
        signature = run.served.signature
        try:
            self._loaded.run_everywhere(signature.name, run.inputs, [spec.name for spec in signature.outputs])
        except SignetError as error:
            self._unsuited.add(signature.name)
            # Strings have a meaning that only the model knows: that the empty one does not suit it is no surprise.
            guessed = signature.name not in self._samples
            strings = any(spec.datatype is BYTES for spec in signature.inputs)
            logger.log(
                logging.INFO if guessed and strings else logging.WARNING,
                "model '%s' version %d: no warm-up of signature '%s', %s do not suit it: %s",
                self._loaded.name,
                self._loaded.version,
                signature.name,
                run.what,
                error,
            )


def _nbytes(spec: TensorSpec, rows: int) -> int:
    return math.prod(_shape(spec, rows)) * spec.datatype.dtype.itemsize


def _shape(spec: TensorSpec, rows: int) -> list[int]:
    """Return a shape that fits: ``rows`` along an open first axis, 1 along every other open axis."""
    shape = [1 if size == OPEN else size for size in spec.shape or ()]
    if spec.has_open_first_dimension:
        shape[0] = rows
    return shape
