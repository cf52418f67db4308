"""Stand-ins for what is slow or random in reality: a servable made of NumPy functions."""

import threading
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from service.datatypes import DATATYPES
from service.devices import CPU
from service.signature import Effect, Signature, TensorSpec

Function = Callable[[Mapping[str, np.ndarray]], Mapping[str, np.ndarray]]


def spec(name, datatype="FP32", shape=(-1, 2), *, optional=False):
    return TensorSpec(name, DATATYPES[datatype], shape, optional)


def signature(name, inputs, outputs, effect=Effect.PURE):
    return Signature(name, tuple(inputs), tuple(outputs), effect)


class FakeServable:
    """A servable whose signatures are NumPy functions; remembers the size and wanted outputs of every run."""

    def __init__(self, *signatures: tuple[Signature, Function], unavailable: Mapping[str, str] | None = None) -> None:
        self.signatures = {signature.name: signature for signature, _ in signatures}
        self.unavailable = dict(unavailable or {})
        self._functions = {signature.name: function for signature, function in signatures}
        self.runs: list[tuple[str, int, tuple[str, ...]]] = []
        self.closed = False
        self._lock = threading.Lock()

    def run(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        first = next(iter(inputs.values()), None)
        rows = len(first) if first is not None and first.ndim else 1
        with self._lock:
            self.runs.append((signature, rows, tuple(outputs)))
        made = self._functions[signature](inputs)
        return {name: made[name] for name in outputs if name in made}

    def run_everywhere(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        self.run(signature, inputs, outputs)

    def device_runs(self):
        return {CPU: len(self.runs)}

    def compilations(self):
        return {}

    def close(self) -> None:
        self.closed = True
