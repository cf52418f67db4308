"""A blueprint brought to life: graph imported, state restored, every signature checked."""

import logging
from collections.abc import Iterable, Mapping

import tensorflow as tf
from tensorflow.core.framework.graph_pb2 import GraphDef

from service.errors import LoadError
from service.saved_model.blueprint import Blueprint, SetupStep
from service.saved_model.broken_files import BrokenFilesError
from service.saved_model.call_depth import CallDepth
from service.saved_model.constants import SharedConstant, Sharing, share_constants
from service.saved_model.graph_index import GraphIndex
from service.saved_model.model_errors import shorten
from service.saved_model.pruning import prune
from service.saved_model.readiness import StateUse
from service.saved_model.sessions import session_config
from service.saved_model.signature_defs import BoundSignature
from service.saved_model.signature_runner import SignatureRunner
from service.saved_model.state_check import StateCheck

logger = logging.getLogger(__name__)


class LiveGraph:
    """A Session with restored state, and a runner for each signature that can be served on it.

    Attributes:
        way: how the SavedModel was read.
        runners: by signature.
        failures: the signatures that this graph cannot serve, each with the reason.
        summary: what was dropped and shared, for the log.
    """

    def __init__(self, blueprint: Blueprint) -> None:
        """Import the graph, restore its state and check each signature.

        The blueprint's graph is used up: large constants are taken out of it.

        Raises:
            LoadError: the graph cannot be imported, or its state cannot be restored.
        """
        self.way = blueprint.way
        self.runners: dict[str, SignatureRunner] = {}
        self.failures: dict[str, str] = {}
        sharing = share_constants(blueprint.graph, blueprint.signatures)
        pruned = prune(blueprint.graph, _roots(blueprint))
        self.summary = _summary(blueprint.graph, pruned, sharing)
        self._session = tf.compat.v1.Session(graph=_import(pruned), config=session_config())
        try:
            self._set_up(sharing.constants, blueprint.setup)
            self._check(blueprint.signatures, GraphIndex(pruned))
        except BaseException:
            self._session.close()
            raise

    def close(self) -> None:
        """Free the Session, and with its last reference the weights."""
        self.runners.clear()
        self._session.close()
        del self._session

    def _set_up(self, constants: Iterable[SharedConstant], steps: Iterable[SetupStep]) -> None:
        with self._session.graph.as_default():
            for constant in constants:
                _assign(self._session, constant)
        for step in steps:
            try:
                self._session.run([self._session.graph.get_operation_by_name(node) for node in step.nodes], step.feeds)
            except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
                text = f"{step.purpose} failed, a file is cut or damaged: {shorten(error.message)}"
                raise BrokenFilesError(text) from error
            except tf.errors.OpError as error:
                raise LoadError(f"{step.purpose} failed: {shorten(error.message)}") from error

    def _check(self, signatures: Mapping[str, BoundSignature], index: GraphIndex) -> None:
        """Keep the signatures whose state is ready and whose graph can be built."""
        state_use, call_depth = StateUse(index), CallDepth(index)
        state = StateCheck(self._session)
        for name, bound in signatures.items():
            reason = state.why_not_ready(
                state_use.variables_read(bound.output_roots), state_use.tables(bound.output_roots)
            )
            if reason is None:
                pool = call_depth.why_pool(bound.output_roots)
                logger.debug("signature %s runs %s", name, "inline" if pool is None else f"on the pool: {pool}")
                self.runners[name] = SignatureRunner(self._session, bound, inline=pool is None)
            else:
                self.failures[name] = reason
        self._session.graph.finalize()
        for name in list(self.runners):
            try:
                self.runners[name].prepare()
            except tf.errors.OpError as error:
                del self.runners[name]
                self.failures[name] = f"it cannot be prepared: {shorten(error.message)}"


def _roots(blueprint: Blueprint) -> list[str]:
    signatures = [root for bound in blueprint.signatures.values() for root in bound.roots]
    return signatures + [root for step in blueprint.setup for root in step.roots]


def _import(graph_def: GraphDef) -> tf.Graph:
    graph = tf.Graph()
    with graph.as_default():
        try:
            tf.graph_util.import_graph_def(graph_def, name="")
        except (tf.errors.OpError, ValueError) as error:
            raise LoadError(f"the graph cannot be imported: {shorten(str(error))}") from error
    return graph


def _assign(session: tf.compat.v1.Session, constant: SharedConstant) -> None:
    """Give the variable that stands for a constant its value."""
    value = constant.value
    dtype = tf.string if value.dtype == object else tf.dtypes.as_dtype(value.dtype)
    handle = tf.raw_ops.VarHandleOp(dtype=dtype, shape=value.shape, shared_name=constant.shared_name, container="")
    placeholder = tf.compat.v1.placeholder(dtype, value.shape)
    session.run(tf.raw_ops.AssignVariableOp(resource=handle, value=placeholder), {placeholder: value})


def _summary(whole: GraphDef, pruned: GraphDef, sharing: Sharing) -> str:
    shared = sum(constant.value.nbytes for constant in sharing.constants)
    nodes = f"{len(pruned.node)} of {len(whole.node)} nodes"
    functions = f"{len(pruned.library.function)} of {len(whole.library.function)} functions"
    parts = [f"{nodes} and {functions} kept"]
    if sharing.constants:
        parts.append(f"large constants shared as variables: {len(sharing.constants)} ({shared / 1e6:.1f} MB)")
    if sharing.copied_bytes:
        parts.append(f"large constants copied for each set of outputs: {sharing.copied_bytes / 1e6:.1f} MB")
    return "; ".join(parts)
