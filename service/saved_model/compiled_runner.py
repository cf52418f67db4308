"""Runs a signature that XLA compiles, and knows of every compilation."""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import tensorflow as tf

from service.saved_model.model_errors import shorten
from service.saved_model.signature_runner import SignatureRunner

_OF_THE_COMPILER: Final = re.compile(r"XLA_[CG]PU_JIT|tf2xla|compile-time constant|XLA compilation", re.IGNORECASE)
"""What is in the messages of runs that fail because the graph cannot be compiled."""

logger = logging.getLogger(__name__)

Shapes = tuple[tuple[int, ...], ...]


class CompiledRunner:
    """A runner whose signature is compiled for each combination of input shapes, at its first run.

    Where XLA refuses the graph the signature runs as it is from then on, and the log says why.
    """

    def __init__(self, name: str, plain: SignatureRunner, compiled: SignatureRunner | None) -> None:
        """Take the signature as it is and the compiled one, None where parts of the plain one are compiled.

        Nothing is run compiled before ``begin``, so that what only looks into a model compiles nothing.
        """
        self._name: Final = name
        self._plain: Final = plain
        self._compiled: Final = compiled
        self._current = plain
        self._counts = compiled is None
        self._shapes: Final[set[Shapes]] = set()
        self._lock: Final = threading.Lock()

    @property
    def compilations(self) -> int:
        """The combinations of input shapes that were compiled, each once."""
        return len(self._shapes)

    def begin(self) -> None:
        """Run compiled from now on."""
        if self._compiled is not None and not self._counts:
            self._current, self._counts = self._compiled, True

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Answer the wanted outputs; see ``SignatureRunner.run``."""
        current = self._current
        try:
            answer = current.run(inputs, outputs)
        except tf.errors.OpError as error:
            if current is self._plain or not _OF_THE_COMPILER.search(error.message):
                raise
            self._give_up(error)
            return self._plain.run(inputs, outputs)
        if self._counts:
            shapes = tuple(array.shape for array in inputs.values())
            if shapes not in self._shapes:
                with self._lock:
                    self._shapes.add(shapes)
        return answer

    def prepare(self) -> None:
        """Prepare the signature as it is; the compiled one needs shapes."""
        self._plain.prepare()

    def _give_up(self, error: tf.errors.OpError) -> None:
        with self._lock:
            was_compiled, self._current, self._counts = self._counts, self._plain, False
        if was_compiled:
            logger.warning("signature %r runs without XLA, which refuses it: %s", self._name, shorten(error.message))


Runner = SignatureRunner | CompiledRunner
"""What runs a signature."""
