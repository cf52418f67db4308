"""Triton's ``instance_group``: which devices a model runs on, and by how many workers on each.

Triton makes a copy of the model for each instance. Here the instances on one device are workers on one copy.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from protos.model_config_pb2 import ModelConfig, ModelInstanceGroup
from service.devices import CPU, Device, DeviceKind, Instances
from service.errors import LoadError

MAX_INSTANCES: Final = 1024
"""Most workers of a model. Each is a thread; a number that is mistyped must not take those of the whole machine."""

_Kinds = ModelInstanceGroup


def complete_instance_groups(config: ModelConfig, devices: Sequence[Device], instance_count: int) -> None:
    """Fill in what the groups of a configuration leave open. A model without any gets one over all devices.

    Args:
        config: with its name; changed.
        devices: those of the server.
        instance_count: workers on each device of a model without groups.

    Raises:
        LoadError: a group asks for what there is not.
    """
    if not config.instance_group:
        config.instance_group.add(name=config.name, count=instance_count)
    for index, group in enumerate(config.instance_group):
        group.name = group.name or f"{config.name}_{index}"
        if group.count < 0:
            raise LoadError(f"{_place(config, group)} has a count of {group.count}")
        group.count = group.count or 1
        _complete_kind(config, group, devices)
    count = sum(each.count for each in instances(config.instance_group, devices))
    if count > MAX_INSTANCES:
        raise LoadError(
            f"model '{config.name}': instance_group has a count of {count}; at most {MAX_INSTANCES} can run"
        )


def instances(groups: Iterable[ModelInstanceGroup], devices: Sequence[Device]) -> tuple[Instances, ...]:
    """Return the workers of completed groups by device, in the order of ``devices``; what groups share is added up."""
    counts: dict[Device | None, int] = {}
    for group in groups:
        for device in _devices_of(group, devices):
            counts[device] = counts.get(device, 0) + group.count
    order: dict[Device | None, int] = {device: index for index, device in enumerate(devices)}
    return tuple(Instances(device, counts[device]) for device in sorted(counts, key=lambda each: order.get(each, -1)))


def _complete_kind(config: ModelConfig, group: ModelInstanceGroup, devices: Sequence[Device]) -> None:
    numbers = [device.number for device in devices if device.kind is DeviceKind.GPU]
    if group.kind == _Kinds.KIND_AUTO:
        group.kind = _Kinds.KIND_GPU if numbers or group.gpus else _Kinds.KIND_CPU
    if group.kind != _Kinds.KIND_GPU:
        if group.gpus:
            raise LoadError(f"{_place(config, group)} names gpus, but is of {_Kinds.Kind.Name(group.kind)}")
        return
    if not numbers:
        raise LoadError(f"{_place(config, group)} asks for a GPU, but this server uses {_listed(devices)}")
    if missing := [number for number in group.gpus if number not in numbers]:
        raise LoadError(f"{_place(config, group)} asks for GPU {missing[0]}, but this server uses {_listed(devices)}")
    if not group.gpus:
        group.gpus.extend(numbers)


def _devices_of(group: ModelInstanceGroup, devices: Sequence[Device]) -> Iterator[Device | None]:
    if group.kind == _Kinds.KIND_MODEL:
        yield None
    elif group.kind == _Kinds.KIND_GPU:
        yield from (each for each in devices if each.kind is DeviceKind.GPU and each.number in group.gpus)
    else:
        # The CPU is always there, also beside GPUs.
        yield from [each for each in devices if each.kind is DeviceKind.CPU] or [CPU]


def _place(config: ModelConfig, group: ModelInstanceGroup) -> str:
    return f"model '{config.name}': instance_group '{group.name}'"


def _listed(devices: Sequence[Device]) -> str:
    return ", ".join(map(str, devices))
