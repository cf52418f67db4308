"""The batcher's options for one signature, from its completed configuration."""

from collections.abc import Mapping
from typing import Final, TypedDict

from batching.options import FillValue, Joining, Oversize, QueueOptions
from batching.policy import QueuePolicy, TimeoutAction
from protos.model_config_pb2 import ModelQueuePolicy, SignatureConfig
from service.completed_config import CompletedConfig
from service.datatypes import BYTES
from service.errors import LoadError
from service.signature import OPEN, Effect, Signature

_JOINING_FIELDS: Final = (
    "allowed_batch_sizes",
    "pad_variable_length_inputs",
    "trimmed_outputs",
    "latency_objective_microseconds",
)


class _Limits(TypedDict):
    max_queue_rows: int
    max_queue_bytes: int
    weight: float
    preserve_ordering: bool
    priority_levels: int
    default_priority_level: int
    default_queue_policy: QueuePolicy | None
    priority_queue_policy: Mapping[int, QueuePolicy]


def queue_options(signature: Signature, config: CompletedConfig, oversize: Oversize, *, model: str) -> QueueOptions:
    """Return how requests of a signature are queued and joined.

    Args:
        signature: as served.
        config: of its model.
        oversize: what happens to requests with more rows than a batch may have.
        model: the model's name, for the text.

    Raises:
        LoadError: the configuration has a value out of range, such as a preferred size above the largest.
    """
    wishes = config.signature_config(signature.name)
    place = f"model '{model}', signature '{signature.name}'"
    try:
        if config.joins(signature.name):
            return _joining(signature, wishes, oversize)
        _refuse_joining(signature, wishes)
        shared = not signature.inputs and signature.effect is Effect.PURE
        return QueueOptions(max_batch_size=1, joining=Joining.SHARE if shared else Joining.ALONE, **_limits(wishes))
    except ValueError as error:
        raise LoadError(f"{place}: {error}") from error


def _joining(signature: Signature, wishes: SignatureConfig, oversize: Oversize) -> QueueOptions:
    batching = wishes.dynamic_batching
    return QueueOptions(
        max_batch_size=wishes.max_batch_size,
        oversize=oversize,
        max_queue_delay_s=batching.max_queue_delay_microseconds / 1e6,
        latency_objective_s=wishes.latency_objective_microseconds / 1e6,
        preferred_batch_size=tuple(sorted(set(batching.preferred_batch_size))),
        allowed_batch_sizes=tuple(wishes.allowed_batch_sizes),
        pad_variable_length_inputs={
            name: _fill_value(signature, name, text) for name, text in wishes.pad_variable_length_inputs.items()
        },
        trimmed_outputs=_trimmed_outputs(signature, wishes),
        **_limits(wishes),
    )


def _refuse_joining(signature: Signature, wishes: SignatureConfig) -> None:
    """Refuse what has a meaning only where requests share runs."""
    for field in _JOINING_FIELDS:
        if getattr(wishes, field):
            reason = signature.why_not_batchable or "it has no dynamic_batching"
            raise ValueError(f"{field} is given, but its requests do not share runs: {reason}")


def _fill_value(signature: Signature, name: str, text: str) -> FillValue:
    """Read the value that an input is padded with, in the input's datatype."""
    spec = signature.input(name)
    if spec is None or spec.shape is None or OPEN not in spec.shape[1:]:
        raise ValueError(f"pad_variable_length_inputs: '{name}' is no input with an open dimension besides the first")
    if spec.datatype is BYTES:
        return text.encode()
    try:
        if spec.datatype.dtype.kind in "iu":
            return int(spec.datatype.dtype.type(int(text)))
        return float(text)
    except (ValueError, OverflowError):
        wanted = f"a value of {spec.datatype.name} for input '{name}'"
        raise ValueError(f"pad_variable_length_inputs: expected {wanted}, got '{text}'") from None


def _trimmed_outputs(signature: Signature, wishes: SignatureConfig) -> dict[str, str]:
    for name in wishes.trimmed_outputs:
        if signature.output(name) is None:
            raise ValueError(f"trimmed_outputs: there is no output '{name}'")
    return dict(wishes.trimmed_outputs)


def _limits(wishes: SignatureConfig) -> _Limits:
    """Return the part of the options that holds whether or not requests are joined."""
    batching = wishes.dynamic_batching
    policy = _policy(batching.default_queue_policy) if batching.HasField("default_queue_policy") else None
    return {
        "max_queue_rows": wishes.max_queue_rows,
        "max_queue_bytes": wishes.max_queue_bytes,
        "weight": wishes.weight or 1.0,
        "preserve_ordering": batching.preserve_ordering,
        "priority_levels": batching.priority_levels,
        "default_priority_level": batching.default_priority_level,
        "default_queue_policy": policy,
        "priority_queue_policy": {level: _policy(each) for level, each in batching.priority_queue_policy.items()},
    }


def _policy(wishes: ModelQueuePolicy) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=TimeoutAction.DELAY if wishes.timeout_action == ModelQueuePolicy.DELAY else TimeoutAction.REJECT,
        default_timeout_s=wishes.default_timeout_microseconds / 1e6,
        allow_timeout_override=wishes.allow_timeout_override,
        max_queue_size=wishes.max_queue_size,
    )
