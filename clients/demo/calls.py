"""What each signature is asked, and the right answers, row for row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

Tensors = Mapping[str, np.ndarray]
"""Arrays by the name of an input or output."""

_RELATIVE_TOLERANCE: Final = 1e-4
_ABSOLUTE_TOLERANCE: Final = 1e-5
"""How far a float may be off: rows that are run together may differ in their last bits from rows run alone."""


@dataclass(frozen=True)
class Call:
    """One signature with inputs for all held-out pictures and the answers that a plain TensorFlow run gives.

    Attributes:
        signature: its name.
        inputs: one array for each input, with a row for each held-out picture; empty if the signature takes none.
        expected: one array for each output, in the same rows; whole if the signature takes no inputs.
    """

    signature: str
    inputs: Tensors
    expected: Tensors

    @property
    def rows(self) -> int:
        """The number of rows to ask about; 0 if the signature takes no inputs."""
        return max((len(array) for array in self.inputs.values()), default=0)


@dataclass(frozen=True)
class Request:
    """One request: some rows of a call, or the whole of a call without inputs."""

    call: Call
    rows: slice

    @property
    def inputs(self) -> Tensors:
        """The inputs to send."""
        return {name: array[self.rows] for name, array in self.call.inputs.items()}

    @property
    def expected(self) -> Tensors:
        """The right answer."""
        if not self.call.inputs:
            return self.call.expected
        return {name: array[self.rows] for name, array in self.call.expected.items()}

    def __str__(self) -> str:
        return (
            f"{self.call.signature}[{self.rows.start or 0}:{self.rows.stop}]"
            if self.call.inputs
            else self.call.signature
        )


def plan(calls: list[Call], passes: int, max_rows: int, random: np.random.Generator) -> list[Request]:
    """Return requests of 1 to ``max_rows`` rows that ask about every row ``passes`` times, signatures mixed.

    A call without inputs is asked as often as a request of ``max_rows`` rows would be.
    """
    longest = max(call.rows for call in calls)
    requests = []
    for call in calls * passes:
        if call.inputs:
            requests += _split(call, max_rows, random)
        else:
            requests += [Request(call, slice(0))] * (longest // max_rows)
    return [requests[i] for i in random.permutation(len(requests))]


def find_fault(answer: Tensors, expected: Tensors) -> str | None:
    """Return what is wrong with the answer, or None: floats within the tolerance, everything else exactly equal."""
    if answer.keys() != expected.keys():
        return f"outputs {sorted(answer)} came instead of {sorted(expected)}"
    for name, right in expected.items():
        came = answer[name]
        if (came.dtype, came.shape) != (right.dtype, right.shape):
            return f"{name} is {came.dtype}{list(came.shape)} instead of {right.dtype}{list(right.shape)}"
        wrong = np.argwhere(_is_wrong(came, right))
        if len(wrong):
            first = tuple(wrong[0])
            return f"{name}{wrong[0].tolist()} is {came[first]} instead of {right[first]}"
    return None


def _split(call: Call, max_rows: int, random: np.random.Generator) -> list[Request]:
    requests = []
    start = 0
    while start < call.rows:
        stop = min(start + int(random.integers(1, max_rows, endpoint=True)), call.rows)
        requests.append(Request(call, slice(start, stop)))
        start = stop
    return requests


def _is_wrong(came: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return for each element whether it is wrong, BOOL of the arrays' shape."""
    if right.dtype.kind == "f":
        wrong = ~np.isclose(came, right, rtol=_RELATIVE_TOLERANCE, atol=_ABSOLUTE_TOLERANCE)
    else:
        wrong = came != right
    return np.asarray(wrong, np.bool_)
