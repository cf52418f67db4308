"""What the rest of the service knows of a loaded model version, whatever runs it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from service.devices import Device
from service.signature import Signature


class Servable(Protocol):
    """One loaded version of a model: its weights, once on each of its devices, and all of its signatures.

    ``run`` may be called from many threads at once. ``close`` must not be called while a run is in flight.
    """

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures that can be run, in ascending order of name; hidden ones are left out."""
        ...

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The signatures that the model has but that cannot be run, each with the reason."""
        ...

    def run(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Run one signature once, in the calling thread.

        Args:
            signature: a key of ``signatures``.
            inputs: an array for each input that is not optional; dtypes and shapes fit the signature.
            outputs: the names of the outputs that are wanted, at least one, each once.

        Returns:
            An array for each wanted output. They may share memory with ``inputs`` and must not be written to.

        Raises:
            InternalError: the model failed; the text is the model's own.
            ResourceExhaustedError: it took more memory than there is.
            InvalidArgumentError: two inputs that are one tensor of the model have different values.
            UnavailableError: the servable is closed.
        """
        ...

    def run_everywhere(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        """Run one signature once on each device that it may run on, in the calling thread. Raises as ``run`` does."""
        ...

    def device_runs(self) -> Mapping[Device | None, int]:
        """How many runs each device has begun since it was loaded, also for other models that share its copy."""
        ...

    def compilations(self) -> Mapping[str, int]:
        """How often XLA compiled each of the signatures that it compiles, since they were loaded, on all devices."""
        ...

    def close(self) -> None:
        """Free the weights. Nothing may be run afterwards."""
        ...
