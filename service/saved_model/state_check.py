"""Asks a Session whether variables and tables have been given their values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from service.saved_model.model_errors import shorten

_REFERENCE_VARIABLES = {"Variable", "VariableV2"}


@dataclass(frozen=True)
class State:
    """Nodes of a graph that some run needs to find ready: variables and lookup tables, by name."""

    variables: Sequence[str]
    tables: Sequence[str]


class StateCheck:
    """Knows of all the state that it was made for whether it is ready.

    Everything is asked in one run: a Session goes over its whole graph again for each new node and each new fetch. One
    by one, the variables of EfficientNet-B0 took longer than all the rest of its load. For the same reason the nodes
    that ask are best added before the Session's first run.
    """

    def __init__(self, session: tf.compat.v1.Session, states: Iterable[State]) -> None:
        """Add the nodes that ask; ``ask`` runs them."""
        self._session = session
        states = list(states)
        variables = dict.fromkeys(name for state in states for name in state.variables)
        tables = dict.fromkeys(name for state in states for name in state.tables)
        with session.graph.as_default():
            self._initialized = {name: self._is_initialized(name) for name in variables}
            self._sizes = {name: self._size(name) for name in tables}
        self._reasons: dict[str, str] = {}

    def ask(self) -> None:
        """Find out what is ready."""
        self._reasons = self._why_no_variables(self._initialized) | self._why_no_tables(self._sizes)

    def why_not_ready(self, state: State) -> str | None:
        """Return the first node that has no value, with the reason; None when all are ready."""
        return next((self._reasons[name] for name in (*state.variables, *state.tables) if name in self._reasons), None)

    def _is_initialized(self, name: str) -> tf.Tensor:
        operation = self._session.graph.get_operation_by_name(name)
        if operation.type in _REFERENCE_VARIABLES:
            return tf.raw_ops.IsVariableInitialized(ref=operation.outputs[0])
        return tf.raw_ops.VarIsInitializedOp(resource=operation.outputs[0])

    def _size(self, name: str) -> tf.Tensor:
        table = self._session.graph.get_operation_by_name(name).outputs[0]
        size_of = tf.raw_ops.LookupTableSizeV2 if table.dtype == tf.resource else tf.raw_ops.LookupTableSize
        return size_of(table_handle=table)

    def _why_no_variables(self, initialized: dict[str, tf.Tensor]) -> dict[str, str]:
        answers = self._session.run(list(initialized.values()))
        return {
            name: f"the variable {name!r} is read, but neither the checkpoint nor the init op gives it a value"
            for name, is_initialized in zip(initialized, answers, strict=True)
            if not is_initialized
        }

    def _why_no_tables(self, sizes: dict[str, tf.Tensor]) -> dict[str, str]:
        try:
            self._session.run(list(sizes.values()))
        except tf.errors.FailedPreconditionError:
            return {name: reason for name, size in sizes.items() if (reason := self._why_no_table(name, size))}
        return {}

    def _why_no_table(self, name: str, size: tf.Tensor) -> str | None:
        try:
            self._session.run(size)
        except tf.errors.FailedPreconditionError as error:
            return f"the table {name!r} is not initialized: {shorten(error.message)}"
        return None
