"""Asks a Session whether variables and tables have been given their values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
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

    A Session goes over its whole graph again for each new node and each new fetch, which takes a quarter of the load of
    EfficientNet-B0. So the nodes that ask are added before the Session's first run, and variables are asked in a run
    that takes place anyway.

    Attributes:
        questions: about the variables. They are to be fetched in the run that gives the state its values, or its last
            part, and are answered after that.
    """

    def __init__(
        self, session: tf.compat.v1.Session, states: Iterable[State], *, after: Iterable[tf.Operation] = ()
    ) -> None:
        """Add the nodes that ask.

        Args:
            session: that has the state.
            states: what may be asked for.
            after: what ends the set-up of the state.
        """
        self._session = session
        states = list(states)
        variables = dict.fromkeys(name for state in states for name in state.variables)
        tables = dict.fromkeys(name for state in states for name in state.tables)
        with session.graph.as_default():
            with tf.control_dependencies(list(after)):
                self._initialized = {name: self._is_initialized(name) for name in variables}
            self._found = {name: self._find(name) for name in tables}
        self.questions: list[tf.Tensor] = list(self._initialized.values())
        self._reasons: dict[str, str] = {}

    def hear(self, answers: Iterable[np.bool_]) -> None:
        """Take the answers to the questions, and ask the tables, whose answer may be a failure."""
        self._reasons = {
            name: f"the variable {name!r} is read, but neither the checkpoint nor the init op gives it a value"
            for name, is_initialized in zip(self._initialized, answers, strict=True)
            if not is_initialized
        } | self._why_no_tables(self._found)

    def why_not_ready(self, state: State) -> str | None:
        """Return the first node that has no value, with the reason; None when all are ready."""
        return next((self._reasons[name] for name in (*state.variables, *state.tables) if name in self._reasons), None)

    def _is_initialized(self, name: str) -> tf.Tensor:
        operation = self._session.graph.get_operation_by_name(name)
        if operation.type in _REFERENCE_VARIABLES:
            return tf.raw_ops.IsVariableInitialized(ref=operation.outputs[0])
        return tf.raw_ops.VarIsInitializedOp(resource=operation.outputs[0])

    def _find(self, name: str) -> tf.Tensor:
        """Return a look-up of no keys, which fails in a table without its values; its size is 0 like an empty one's."""
        table = self._session.graph.get_operation_by_name(name)
        keys = tf.zeros([0], table.get_attr("key_dtype"))
        default = tf.zeros([], table.get_attr("value_dtype"))
        handle = table.outputs[0]
        find = tf.raw_ops.LookupTableFindV2 if handle.dtype == tf.resource else tf.raw_ops.LookupTableFind
        return find(table_handle=handle, keys=keys, default_value=default)

    def _why_no_tables(self, found: dict[str, tf.Tensor]) -> dict[str, str]:
        try:
            self._session.run(list(found.values()))
        except tf.errors.FailedPreconditionError:
            return {name: reason for name, values in found.items() if (reason := self._why_no_table(name, values))}
        return {}

    def _why_no_table(self, name: str, values: tf.Tensor) -> str | None:
        try:
            self._session.run(values)
        except tf.errors.FailedPreconditionError as error:
            return f"the table {name!r} is not initialized: {shorten(error.message)}"
        return None
