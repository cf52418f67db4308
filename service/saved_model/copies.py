"""The copies of one graph, one per device, and which of them runs what."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import tensorflow as tf

from service.devices import Device
from service.optimizations import Optimizations
from service.saved_model.compiled_runner import CompiledRunner, Runner
from service.saved_model.graph_index import GraphIndex
from service.saved_model.graph_options import GraphOptions
from service.saved_model.live_graph import LiveGraph
from service.saved_model.model_errors import shorten
from service.saved_model.placement import forget_gpus
from service.saved_model.refinement import RefinedBlueprint
from service.saved_model.state_sharing import pinned_signatures

_FAULTS: Final = (
    tf.errors.AbortedError,
    tf.errors.InternalError,
    tf.errors.ResourceExhaustedError,
    tf.errors.UnavailableError,
    tf.errors.UnknownError,
)
"""Failures that may be those of a device; what a model says of its inputs is none of them."""

_REST_S: Final = 10.0
"""How long a device whose failure another one did not share gets no runs."""

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Copy:
    """A copy and what it does: runs in progress, runs begun since it was loaded, and until when it is passed over."""

    graph: LiveGraph
    device: Device | None
    running: int = 0
    runs: int = 0
    rests_until: float = 0.0


class Copies:
    """A graph on each of several devices, or on one. ``run`` may be called from many threads.

    Signatures that write, and those that use the same state, run on the first device alone, so that there is one truth
    about their variables.

    Attributes:
        way: how the SavedModel was read.
        summary: what was dropped and shared, for the log.
        failures: the signatures that cannot be served on every device, each with the reason.
        pinned: the signatures that run on the first device alone though there are several.
    """

    def __init__(self, blueprint: RefinedBlueprint, options: GraphOptions) -> None:
        """Bring the blueprint to life on each device.

        Raises:
            LoadError: the graph cannot be imported, or its state cannot be restored, on one of them.
        """
        devices: Sequence[Device | None] = options.devices
        self.way = blueprint.way
        self.summary = blueprint.summary
        self.pinned: frozenset[str] = frozenset()
        if len(devices) > 1:
            self.pinned = pinned_signatures(GraphIndex(blueprint.graph), blueprint.signatures)
        if len(self.pinned) == len(blueprint.signatures):
            devices = devices[:1]
        if any(device is not None for device in devices):
            forget_gpus(blueprint.graph)
        self._lock = threading.Lock()
        with ExitStack() as undone_on_failure:
            self._copies = [
                _Copy(self._bring_to_life(each, device, options.optimizations, undone_on_failure), device)
                for device, each in zip(devices, _blueprints(blueprint, len(devices)), strict=True)
            ]
            undone_on_failure.pop_all()
        self.failures = {name: why for copy in self._copies for name, why in copy.graph.failures.items()}

    def _bring_to_life(
        self,
        blueprint: RefinedBlueprint,
        device: Device | None,
        optimizations: Optimizations,
        undone_on_failure: ExitStack,
    ) -> LiveGraph:
        graph = LiveGraph(blueprint, device, optimizations)
        undone_on_failure.callback(graph.close)
        return graph

    @property
    def devices(self) -> list[Device | None]:
        """Where the copies lie."""
        return [copy.device for copy in self._copies]

    @property
    def runners(self) -> Mapping[str, Runner]:
        """The runners on the first device."""
        return self._copies[0].graph.runners

    def runs(self) -> dict[Device | None, int]:
        """Return how many runs each device has begun."""
        with self._lock:
            return {copy.device: copy.runs for copy in self._copies}

    def begin_compiled(self) -> None:
        """Let the signatures that XLA compiles run compiled from now on."""
        for runner in self._compiled_runners():
            runner.begin()

    def compilations(self) -> dict[str, int]:
        """Return for each signature that XLA compiles, or parts of it, how often it did, over all devices."""
        counts: dict[str, int] = {}
        for copy in self._copies:
            for name, runner in copy.graph.runners.items():
                if isinstance(runner, CompiledRunner):
                    counts[name] = counts.get(name, 0) + runner.compilations
        return counts

    def _compiled_runners(self) -> Iterator[CompiledRunner]:
        for copy in self._copies:
            for runner in copy.graph.runners.values():
                if isinstance(runner, CompiledRunner):
                    yield runner

    def run(
        self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], workers: Sequence[int] = ()
    ) -> dict[str, np.ndarray]:
        """Run a signature on the device that has most room; see ``SignatureRunner.run``.

        A run that fails in a way that may be the device's fault is tried once more, on another device.

        Args:
            signature: its name.
            inputs: by name.
            outputs: those that are wanted.
            workers: how many runs each device should have at a time; by default as many on each.
        """
        if len(self._copies) == 1:
            return self._run_on_the_only_one(signature, inputs, outputs)
        copy = self._take(signature, workers)
        try:
            return copy.graph.runners[signature].run(inputs, outputs)
        except _FAULTS as fault:
            if signature in self.pinned:
                raise
            return self._run_elsewhere(copy, fault, signature, inputs, outputs)
        finally:
            self._give_back(copy)

    def run_everywhere(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        """Run a signature once on each device that it may run on."""
        for copy in self._candidates(signature):
            with self._lock:
                copy.runs += 1
            copy.graph.runners[signature].run(inputs, outputs)

    def close(self) -> None:
        """Free all Sessions, and with their last references the weights."""
        for copy in self._copies:
            copy.graph.close()

    def _run_on_the_only_one(
        self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]
    ) -> dict[str, np.ndarray]:
        (copy,) = self._copies
        with self._lock:
            copy.runs += 1
        return copy.graph.runners[signature].run(inputs, outputs)

    def _take(self, signature: str, workers: Sequence[int], but: _Copy | None = None) -> _Copy:
        with self._lock:
            candidates = self._candidates(signature)
            chosen = candidates[0]
            if len(candidates) > 1:
                now = time.monotonic()
                chosen = min(
                    (copy for copy in candidates if copy is not but),
                    key=lambda copy: (copy.rests_until > now, copy.running / self._share(copy, workers), copy.runs),
                )
            chosen.running += 1
            chosen.runs += 1
            return chosen

    def _candidates(self, signature: str) -> list[_Copy]:
        return self._copies[:1] if signature in self.pinned else self._copies

    def _share(self, copy: _Copy, workers: Sequence[int]) -> int:
        return workers[self._copies.index(copy)] if workers else 1

    def _give_back(self, copy: _Copy) -> None:
        with self._lock:
            copy.running -= 1

    def _run_elsewhere(
        self,
        failed: _Copy,
        fault: tf.errors.OpError,
        signature: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
    ) -> dict[str, np.ndarray]:
        """Find out whose fault a failure is: what fails on two devices is the request's own."""
        other = self._take(signature, (), but=failed)
        try:
            answer = other.graph.runners[signature].run(inputs, outputs)
        except tf.errors.OpError:
            raise fault from None
        finally:
            self._give_back(other)
        with self._lock:
            failed.rests_until = time.monotonic() + _REST_S
        logger.error(
            "%s failed a run of signature %r that %s answered, and gets no more for %g s: %s",
            failed.device,
            signature,
            other.device,
            _REST_S,
            shorten(fault.message),
        )
        return answer


def _blueprints(blueprint: RefinedBlueprint, count: int) -> Iterator[RefinedBlueprint]:
    """Yield it so often. A graph uses its constants up, so that they are not held twice; only the last one may."""
    for _ in range(count - 1):
        yield replace(blueprint, constants=list(blueprint.constants))
    yield blueprint
