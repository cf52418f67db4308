"""Recognizes serialized requests that differ from an earlier one in nothing but their id and their data."""

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import numpy as np

from service.wire import RequestParts

Plan = TypeVar("Plan")

_MOST_OF_A_LENGTH: Final = 16
"""Templates that are tried for a message, all for its length."""

_MOST_TEMPLATES: Final = 1024


class TensorForm(NamedTuple):
    """An input that lies in the data as it is: which entry of them, its shape and its dtype."""

    name: str
    entry: int
    shape: tuple[int, ...]
    dtype: np.dtype


class Template(Generic[Plan]):
    """What a request has in common with others of the same length: all bytes but its id's and its data's.

    Those bytes hold the tag and the length of every field. So a message in which they are the same has its id and its
    data in the same places, and nothing of it needs to be parsed.
    """

    __slots__ = ("_first", "_id_span", "_inputs", "_others", "nbytes", "plan")

    def __init__(self, plan: Plan, data: bytes, parts: RequestParts, inputs: Sequence[TensorForm], nbytes: int) -> None:
        """Create the template of a request.

        Args:
            plan: what was found out about it.
            data: the request, serialized.
            parts: those of ``data``.
            inputs: the forms of its inputs.
            nbytes: how much they take.
        """
        self.plan: Final = plan
        self.nbytes: Final = nbytes
        spans = [*parts.raw_spans] if parts.id_span is None else [parts.id_span, *parts.raw_spans]
        begins = [0, *(end for _, end in spans)]
        ends = [*(begin for begin, _ in spans), len(data)]
        pieces = [(begin, data[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        self._first = pieces[0][1]
        self._others = [(begin, piece) for begin, piece in pieces[1:] if piece]
        self._id_span = None if parts.id_span is None else slice(*parts.id_span)
        self._inputs = [(form.name, form.shape, form.dtype, parts.raw_spans[form.entry][0]) for form in inputs]

    def read(self, data: bytes) -> tuple[Plan, str, dict[str, np.ndarray], int] | None:
        """Return what ``KnownRequests.recognize`` does, for a message of the same length."""
        if not data.startswith(self._first):
            return None
        for begin, piece in self._others:
            if not data.startswith(piece, begin):
                return None
        try:
            request_id = "" if self._id_span is None else data[self._id_span].decode()
        except UnicodeDecodeError:
            return None
        arrays = {}
        for name, shape, dtype, begin in self._inputs:
            arrays[name] = np.ndarray(shape, dtype, data, begin)
        return self.plan, request_id, arrays, self.nbytes


class KnownRequests(Generic[Plan]):
    """The plans of requests that were seen, by what others may have in common with them. For any thread.

    A bounded number is kept, so that what clients invent does not pile up.
    """

    def __init__(self) -> None:
        self._by_header: dict[bytes, Plan] = {}
        self._templates: dict[int, tuple[Template[Plan], ...]] = {}

    def __len__(self) -> int:
        """Return how many plans are kept by their headers."""
        return len(self._by_header)

    def recognize(self, data: bytes) -> tuple[Plan, str, dict[str, np.ndarray], int] | None:
        """Return the plan, the id, the inputs as views, and their bytes, of a serialized request; None if not known."""
        for template in self._templates.get(len(data), ()):
            found = template.read(data)
            if found is not None:
                return found
        return None

    def find(self, header: bytes) -> Plan | None:
        """Return the plan of requests with this header."""
        return self._by_header.get(header)

    def keep(self, header: bytes, plan: Plan) -> None:
        """Keep the plan of requests with this header."""
        if len(self._by_header) >= _MOST_TEMPLATES:
            self._by_header.clear()
        self._by_header[header] = plan

    def keep_template(self, template: Template[Plan], length: int) -> None:
        """Keep the template of requests of this length."""
        if len(self._templates) >= _MOST_TEMPLATES:
            self._templates.clear()
        same = self._templates.get(length, ())
        if len(same) < _MOST_OF_A_LENGTH:
            self._templates[length] = (*same, template)
