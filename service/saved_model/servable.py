"""A loaded SavedModel, as the rest of the service sees it."""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf

from service.devices import Device, Instances
from service.errors import InternalError, InvalidArgumentError, ResourceExhaustedError, UnavailableError
from service.saved_model.model_errors import shorten
from service.saved_model.shared_graphs import Share
from service.signature import Effect, Signature

Result = TypeVar("Result")


class SavedModelServable:
    """One version of a model on a graph that it may share; implements ``service.servable.Servable``.

    ``run`` may be called from many threads. ``close`` waits for the runs in flight, since TensorFlow ends the process
    when a Session is closed under a run.
    """

    def __init__(self, model: str, version: int, share: Share, instances: Sequence[Instances]) -> None:
        self._name = f"model {model!r} version {version}"
        self._share = share
        self._graph = share.graph
        self._writing = {name for name, each in self.signatures.items() if each.effect is Effect.WRITING}
        self._workers = [each.count for each in instances]
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._runs = 0
        self._closed = False

    @property
    def signatures(self) -> Mapping[str, Signature]:
        """The signatures that can be run, in ascending order of name."""
        return self._graph.signatures

    @property
    def unavailable(self) -> Mapping[str, str]:
        """The signatures that the model has but that cannot be run, each with the reason."""
        return self._graph.unavailable

    def run(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Run one signature once, in the calling thread; see ``Servable.run``.

        Raises:
            InternalError: the model failed; the text is the model's own.
            InvalidArgumentError: two inputs that are one tensor of the model have different values.
            ResourceExhaustedError: it took more memory than there is.
            UnavailableError: the servable is closed.
        """
        return self._guarded(signature, lambda: self._graph.live.run(signature, inputs, outputs, self._workers))

    def run_everywhere(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        """Run one signature once on each device; see ``Servable.run_everywhere``. Raises as ``run`` does."""
        self._guarded(signature, lambda: self._graph.live.run_everywhere(signature, inputs, outputs))

    def device_runs(self) -> Mapping[Device | None, int]:
        """How many runs each device has begun; see ``Servable.device_runs``."""
        return self._graph.live.runs()

    def begin_compiled(self) -> None:
        """Let the signatures that XLA compiles run compiled from now on; before, only to find out about a model."""
        self._graph.live.begin_compiled()

    def compilations(self) -> Mapping[str, int]:
        """How often XLA compiled each signature; see ``Servable.compilations``."""
        return self._graph.live.compilations()

    def close(self) -> None:
        """Let go of the graph once the runs in flight have ended; a second call does nothing."""
        with self._idle:
            if self._closed:
                return
            self._closed = True
            self._idle.wait_for(lambda: self._runs == 0)
        self._share.release()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self._runs} runs in flight"
        return f"<{type(self).__name__} {self._name}: {len(self.signatures)} signatures, {state}>"

    def _guarded(self, signature: str, run: Callable[[], Result]) -> Result:
        """Run, and say what fails in the service's words."""
        self._begin()
        try:
            if signature in self._writing:
                self._share.note_write()
            return run()
        except tf.errors.ResourceExhaustedError as error:
            raise ResourceExhaustedError(f"{self._name} signature {signature!r}: {shorten(error.message)}") from error
        except tf.errors.OpError as error:
            raise InternalError(f"{self._name} signature {signature!r}: {shorten(error.message)}") from error
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{self._name} signature {signature!r}: {error}") from None
        finally:
            self._end()

    def _begin(self) -> None:
        with self._lock:
            if self._closed:
                raise UnavailableError(f"{self._name} is closed")
            self._runs += 1

    def _end(self) -> None:
        with self._lock:
            self._runs -= 1
            if self._closed and self._runs == 0:
                self._idle.notify_all()
