"""The batcher's options for one signature, from its completed configuration."""

from collections.abc import Mapping
from typing import TypedDict

from batching.options import Joining, Oversize, QueueOptions
from batching.policy import QueuePolicy, TimeoutAction
from protos.model_config_pb2 import ModelDynamicBatching, ModelQueuePolicy
from service.completed_config import CompletedConfig
from service.errors import LoadError
from service.signature import Effect, Signature


class _Policies(TypedDict):
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
    batching = config.batching(signature.name)
    wishes = config.dynamic_batching(signature.name)
    try:
        if batching.joins:
            return QueueOptions(
                max_batch_size=batching.max_batch_size,
                oversize=oversize,
                max_queue_delay_s=batching.max_queue_delay_us / 1e6,
                preferred_batch_size=tuple(sorted(set(wishes.preferred_batch_size))),
                **_policies(wishes),
            )
        shared = not signature.inputs and signature.effect is Effect.PURE
        return QueueOptions(max_batch_size=1, joining=Joining.SHARE if shared else Joining.ALONE, **_policies(wishes))
    except ValueError as error:
        raise LoadError(f"model '{model}', signature '{signature.name}': {error}") from error


def _policies(wishes: ModelDynamicBatching) -> _Policies:
    """Return the part of the options that holds whether or not requests are joined."""
    return {
        "preserve_ordering": wishes.preserve_ordering,
        "priority_levels": wishes.priority_levels,
        "default_priority_level": wishes.default_priority_level,
        "default_queue_policy": _policy(wishes.default_queue_policy)
        if wishes.HasField("default_queue_policy")
        else None,
        "priority_queue_policy": {level: _policy(policy) for level, policy in wishes.priority_queue_policy.items()},
    }


def _policy(wishes: ModelQueuePolicy) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=TimeoutAction.DELAY if wishes.timeout_action == ModelQueuePolicy.DELAY else TimeoutAction.REJECT,
        default_timeout_s=wishes.default_timeout_microseconds / 1e6,
        allow_timeout_override=wishes.allow_timeout_override,
        max_queue_size=wishes.max_queue_size,
    )
