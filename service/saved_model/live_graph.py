"""A blueprint brought to life: graph imported, state restored, every signature checked."""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from service.devices import Device
from service.errors import LoadError
from service.optimizations import Optimizations, Xla
from service.saved_model.blueprint import SetupStep
from service.saved_model.broken_files import BrokenFilesError
from service.saved_model.call_depth import CallDepth
from service.saved_model.compiled_runner import CompiledRunner, Runner
from service.saved_model.compiling import compile_signature, holds_compiled_functions
from service.saved_model.constants import SharedConstant
from service.saved_model.device_memory import DeviceMemoryError
from service.saved_model.graph_index import GraphIndex
from service.saved_model.importing import import_served
from service.saved_model.model_errors import shorten
from service.saved_model.placement import keeps_to_one_thread, placed
from service.saved_model.readiness import StateUse
from service.saved_model.refinement import RefinedBlueprint
from service.saved_model.sessions import new_session
from service.saved_model.signature_defs import BoundSignature
from service.saved_model.signature_runner import SignatureRunner
from service.saved_model.state_check import State, StateCheck
from service.signature import Effect
from service.timed_steps import timed

logger = logging.getLogger(__name__)


class LiveGraph:
    """A Session on one device with restored state, and a runner for each signature that can be served on it.

    Attributes:
        way: how the SavedModel was read.
        runners: by signature.
        failures: the signatures that this graph cannot serve, each with the reason.
        summary: what was dropped and shared, for the log.
    """

    def __init__(
        self, blueprint: RefinedBlueprint, device: Device | None, optimizations: Optimizations | None = None
    ) -> None:
        """Import the graph, restore its state and check each signature.

        Raises:
            DeviceMemoryError: its state does not fit into the memory.
            LoadError: the graph cannot be imported, or its state cannot be restored.
        """
        self.way = blueprint.way
        self.summary = blueprint.summary
        self.runners: dict[str, Runner] = {}
        self._device = device
        self._optimizations = optimizations or Optimizations()
        with timed("importing the graph"):
            graph, self.failures = import_served(blueprint, device)
        self._session = new_session(graph, device, self._optimizations)
        imported = {name: bound for name, bound in blueprint.signatures.items() if name not in self.failures}
        try:
            self._bring_up(blueprint, imported)
        except BaseException as error:
            self._session.close()
            if isinstance(error, tf.errors.ResourceExhaustedError):
                raise DeviceMemoryError(f"it does not fit into the memory: {shorten(error.message)}") from error
            raise

    def _bring_up(self, blueprint: RefinedBlueprint, imported: Mapping[str, BoundSignature]) -> None:
        """Give the state its values, and make a runner for each signature whose state is ready.

        All nodes are added before the first run, since a Session goes over its whole graph again for new ones.
        """
        index = GraphIndex(blueprint.graph)
        call_depth = CallDepth(index)
        states = _states(imported, index)
        compiled = self._compile(imported, blueprint.graph, call_depth)
        check = StateCheck(self._session, states.values(), after=self._operations(blueprint.setup[-1:]))
        with timed("setting up the state"):
            self._assign(blueprint.constants)
            self._set_up(blueprint.setup, check)
        with timed("choosing how signatures run"):
            for name, bound in imported.items():
                reason = check.why_not_ready(states[name])
                if reason is None:
                    self.runners[name] = self._make_runner(bound, compiled.get(name), index, call_depth)
                else:
                    self.failures[name] = reason
        self._session.graph.finalize()
        with timed("preparing the signatures"):
            self._prepare()

    def close(self) -> None:
        """Free the Session, and with its last reference the weights."""
        self.runners.clear()
        self._session.close()
        del self._session

    def _assign(self, constants: list[SharedConstant]) -> None:
        """Give the variables that stand for constants their values, which are then no longer held twice."""
        with self._session.graph.as_default(), placed(self._device):
            assignments = [_assignment(constant) for constant in constants]
        while constants:
            assign, placeholder = assignments.pop()
            self._session.run(assign, {placeholder: constants.pop().value})

    def _operations(self, steps: Iterable[SetupStep]) -> list[tf.Operation]:
        return [self._session.graph.get_operation_by_name(node) for step in steps for node in step.nodes]

    def _set_up(self, steps: Sequence[SetupStep], check: StateCheck) -> None:
        """Run the steps; find out in the last one's run which variables have a value then."""
        for step in steps[:-1]:
            self._run_step(step, [])
        check.hear(self._run_step(steps[-1], check.questions) if steps else self._session.run(check.questions))

    def _run_step(self, step: SetupStep, questions: list[tf.Tensor]) -> list[np.bool_]:
        # As bytes: TensorFlow opens files of any name, but takes no text that is no UTF-8.
        feeds = {tensor: os.fsencode(file) for tensor, file in step.feeds.items()}
        try:
            answers: list[np.bool_] = self._session.run((self._operations([step]), questions), feeds)[1]
        except tf.errors.ResourceExhaustedError:
            raise
        except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
            text = f"{step.purpose} failed, a file is cut or damaged: {shorten(error.message)}"
            raise BrokenFilesError(text) from error
        except tf.errors.OpError as error:
            raise LoadError(f"{step.purpose} failed: {shorten(error.message)}") from error
        return answers

    def _compile(
        self, signatures: Mapping[str, BoundSignature], graph_def: GraphDef, call_depth: CallDepth
    ) -> dict[str, BoundSignature]:
        """Add a compiled function for each signature that XLA is to compile as a whole; the log tells of others."""
        compiled = {}
        for name, bound in signatures.items():
            if self._optimizations.xla_of(name) is Xla.ON:
                try:
                    _check_compiles(bound, call_depth)
                    compiled[name] = compile_signature(self._session.graph, graph_def, bound, self._device)
                except LoadError as error:
                    logger.warning("signature %r runs without XLA: %s", name, error)
        return compiled

    def _make_runner(
        self, bound: BoundSignature, compiled: BoundSignature | None, index: GraphIndex, call_depth: CallDepth
    ) -> Runner:
        name = bound.signature.name
        on_one = keeps_to_one_thread(self._device)
        pool = call_depth.why_pool(bound.output_roots) if on_one else "copies to and from GPUs end in other threads"
        logger.debug("signature %s runs %s", name, "inline" if pool is None else f"on the pool: {pool}")
        plain = SignatureRunner(self._session, bound, inline=pool is None)
        if compiled is not None:
            return CompiledRunner(name, plain, SignatureRunner(self._session, compiled, inline=on_one))
        if self._optimizations.xla is Xla.AUTO or holds_compiled_functions(index, bound):
            return CompiledRunner(name, plain, None)
        return plain

    def _prepare(self) -> None:
        """Let TensorFlow place and optimize each signature now, so that what cannot run is known before a request."""
        for name in list(self.runners):
            try:
                self.runners[name].prepare()
            except tf.errors.OpError as error:
                del self.runners[name]
                self.failures[name] = f"it cannot be prepared: {shorten(error.message)}"


def _check_compiles(bound: BoundSignature, call_depth: CallDepth) -> None:
    if bound.signature.effect is Effect.WRITING:
        raise LoadError("it writes")
    if call_depth.is_deep(bound.output_roots):
        raise LoadError("its chain of calls is too long")


def _states(signatures: Mapping[str, BoundSignature], index: GraphIndex) -> dict[str, State]:
    """Return what the runs of each signature need to find ready."""
    use = StateUse(index)
    return {name: _state(bound, index, use) for name, bound in signatures.items()}


def _state(bound: BoundSignature, index: GraphIndex, whole: StateUse) -> State:
    fed = index.fed(bound.inputs.values())
    use = whole if fed is index else StateUse(fed)
    return State(use.variables_read(bound.output_roots), use.tables(bound.output_roots))


def _assignment(constant: SharedConstant) -> tuple[tf.Operation, tf.Tensor]:
    """Return the op that gives the variable that stands for a constant its value, and where that is fed."""
    value = constant.value
    dtype = tf.string if value.dtype == object else tf.dtypes.as_dtype(value.dtype)
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape, shared_name=constant.shared_name, container="")
    placeholder = tf.compat.v1.placeholder(dtype, value.shape)
    return tf.raw_ops.AssignVariableOp(resource=handle, value=placeholder), placeholder
