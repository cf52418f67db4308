"""Asks a Session whether variables and tables have been given their values."""

from collections.abc import Iterable

import tensorflow as tf

from service.saved_model.model_errors import shorten

_REFERENCE_VARIABLES = {"Variable", "VariableV2"}


class StateCheck:
    """Answers for one Session, each variable and table once."""

    def __init__(self, session: tf.compat.v1.Session) -> None:
        self._session = session
        self._reasons: dict[str, str | None] = {}

    def why_not_ready(self, variables: Iterable[str], tables: Iterable[str]) -> str | None:
        """Return the first of the given nodes that has no value, with the reason; None when all are ready."""
        for name in variables:
            if name not in self._reasons:
                self._reasons[name] = self._why_no_variable(name)
        for name in tables:
            if name not in self._reasons:
                self._reasons[name] = self._why_no_table(name)
        return next((self._reasons[name] for name in (*variables, *tables) if self._reasons[name] is not None), None)

    def _why_no_variable(self, name: str) -> str | None:
        operation = self._session.graph.get_operation_by_name(name)
        with self._session.graph.as_default():
            if operation.type in _REFERENCE_VARIABLES:
                answer = tf.raw_ops.IsVariableInitialized(ref=operation.outputs[0])
            else:
                answer = tf.raw_ops.VarIsInitializedOp(resource=operation.outputs[0])
        if self._session.run(answer):
            return None
        return f"the variable {name!r} is read, but neither the checkpoint nor the init op gives it a value"

    def _why_no_table(self, name: str) -> str | None:
        table = self._session.graph.get_operation_by_name(name).outputs[0]
        size_of = tf.raw_ops.LookupTableSizeV2 if table.dtype == tf.resource else tf.raw_ops.LookupTableSize
        with self._session.graph.as_default():
            size = size_of(table_handle=table)
        try:
            self._session.run(size)
        except tf.errors.FailedPreconditionError as error:
            return f"the table {name!r} is not initialized: {shorten(error.message)}"
        return None
