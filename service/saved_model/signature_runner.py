"""Runs one signature: names in, names out, with a prepared callable for each set of outputs that is asked for."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import tensorflow as tf

from service import aligned
from service.errors import InvalidArgumentError
from service.saved_model.prepared_callable import Prepared, prepare
from service.saved_model.signature_defs import BoundSignature
from service.signature import Effect

MOST_CALLABLES = 16
"""Sets of outputs of one signature that stay prepared; the one not used for longest goes."""


_LARGE_BYTES: Final = 1 << 20
"""The copy of an input that is smaller takes no longer than handing over the interpreter's lock may."""


@dataclass(frozen=True)
class _Plan:
    """How one set of outputs is answered.

    Attributes:
        run: the prepared callable, None when every output is an input.
        positions: for each output that is computed the place of its value in what ``run`` returns.
        echoes: for each output that is itself fed to the model the name of that input.
    """

    run: Prepared | None
    positions: Mapping[str, int]
    echoes: Mapping[str, str]


class SignatureRunner:
    """One signature on one Session. ``run`` may be called from many threads."""

    def __init__(self, session: tf.compat.v1.Session, bound: BoundSignature, *, inline: bool) -> None:
        self._session = session
        self._bound = bound
        self._inline = inline
        self._names_by_feed = _names_by_feed(bound)
        self._feeds = tuple(self._names_by_feed.values())
        self._copies_inputs = bound.signature.effect is Effect.WRITING
        self._plans: OrderedDict[frozenset[str], _Plan] = OrderedDict()
        self._latest: tuple[tuple[str, ...], _Plan] | None = None
        self._lock = threading.Lock()
        self._preparing = threading.Lock()

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """Answer the wanted outputs; see ``Servable.run``.

        Raises:
            InvalidArgumentError: two inputs that are one tensor of the model differ.
            tensorflow.errors.OpError: the model failed.
        """
        given = {**self._bound.defaults, **inputs} if self._bound.defaults else inputs
        feeds = [self._feed(names, given) for names in self._feeds]
        plan = self._plan_for(outputs)
        values = plan.run(*feeds) if plan.run is not None else []
        return {
            name: _as_array(values[plan.positions[name]]) if name in plan.positions else given[plan.echoes[name]]
            for name in outputs
        }

    def prepare(self) -> None:
        """Prepare the set of all outputs, so that a model that cannot be placed or built fails at load.

        Raises:
            tensorflow.errors.OpError: the graph cannot be built.
        """
        self._plan(frozenset(self._bound.outputs))

    def _feed(self, names: Sequence[str], inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the value of one fed tensor, on which all inputs that stand for it must agree."""
        value = inputs[names[0]]
        for other in names[1:]:
            if not _same(value, inputs[other]):
                raise InvalidArgumentError(
                    f"the inputs {names[0]!r} and {other!r} are one tensor of the model and must have the same value"
                )
        # A variable may take over the memory of the array that is assigned to it, and the caller may reuse that memory.
        if self._copies_inputs:
            return value.copy()
        # TensorFlow would copy it, and hold the interpreter's lock meanwhile.
        return aligned.copy(value) if value.nbytes >= _LARGE_BYTES and not _fits_as_it_is(value) else value

    def _plan_for(self, outputs: Sequence[str]) -> _Plan:
        """Return the plan for outputs; most often they are the very object of the last time, which costs nothing."""
        latest = self._latest
        if latest is not None and latest[0] is outputs:
            return latest[1]
        plan = self._plan(frozenset(outputs))
        if isinstance(outputs, tuple):  # a list may hold other names the next time
            self._latest = outputs, plan
        return plan

    def _plan(self, outputs: frozenset[str]) -> _Plan:
        """Return the plan for a set of outputs; to prepare one takes long and must not hold up those that are there."""
        plan = self._find(outputs)
        if plan is None:
            with self._preparing:
                plan = self._find(outputs)
                if plan is None:
                    plan = self._make_plan(outputs)
                    self._keep(outputs, plan)
        return plan

    def _find(self, outputs: frozenset[str]) -> _Plan | None:
        with self._lock:
            plan = self._plans.get(outputs)
            if plan is not None:
                self._plans.move_to_end(outputs)
            return plan

    def _keep(self, outputs: frozenset[str], plan: _Plan) -> None:
        """Add a plan; the one that goes for it lives on until the runs that use it have ended."""
        with self._lock:
            self._plans[outputs] = plan
            if len(self._plans) > MOST_CALLABLES:
                self._plans.popitem(last=False)

    def _make_plan(self, outputs: frozenset[str]) -> _Plan:
        tensors = {name: self._bound.outputs[name] for name in sorted(outputs)}
        echoes = {
            name: self._names_by_feed[tensor][0] for name, tensor in tensors.items() if tensor in self._names_by_feed
        }
        computed = {name: tensor for name, tensor in tensors.items() if name not in echoes}
        fetches = list(dict.fromkeys(computed.values()))
        run = prepare(self._session, list(self._names_by_feed), fetches, inline=self._inline) if fetches else None
        return _Plan(run, {name: fetches.index(tensor) for name, tensor in computed.items()}, echoes)


def _names_by_feed(bound: BoundSignature) -> dict[str, list[str]]:
    """Return for each tensor that is fed the inputs that stand for it; a Session refuses to feed one twice."""
    names: dict[str, list[str]] = {}
    for name, tensor in bound.inputs.items():
        names.setdefault(tensor, []).append(name)
    return names


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal bit by bit, so that NaN equals itself."""
    if one.shape != other.shape:
        return False
    if one.dtype == object:
        return bool(one.tolist() == other.tolist())
    return one.tobytes() == other.tobytes()


def _fits_as_it_is(value: np.ndarray) -> bool:
    return value.dtype == object or aligned.is_aligned(value)


def _as_array(value: object) -> np.ndarray:
    """Sessions return a scalar as NumPy's scalar, or as ``bytes``; neither is an array yet."""
    if isinstance(value, np.ndarray):
        return value
    return np.array(value, dtype=object) if isinstance(value, bytes) else np.asarray(value)
