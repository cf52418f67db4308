"""Groups of instances become workers on devices, or are refused by name."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig, ModelInstanceGroup
from service.devices import CPU, DeviceChoice
from service.errors import LoadError
from service.instance_groups import complete_instance_groups, instances

TWO_CPUS = DeviceChoice.parse("cpu:0,1").cpus()
TWO_GPUS = DeviceChoice.parse("gpu:1,3").gpus(4)


def completed(text, devices, instance_count=2):
    config = text_format.Parse(f'name: "clip" {text}', ModelConfig())
    complete_instance_groups(config, devices, instance_count)
    return config.instance_group


def workers(text, devices):
    return [(str(each.device), each.count) for each in instances(completed(text, devices), devices)]


@pytest.mark.parametrize(
    ("text", "devices", "expected"),
    [
        ("", (CPU,), [("CPU:0", 2)]),
        ("", TWO_CPUS, [("CPU:0", 2), ("CPU:1", 2)]),
        ("", TWO_GPUS, [("GPU:1", 2), ("GPU:3", 2)]),
        ("instance_group { }", TWO_GPUS, [("GPU:1", 1), ("GPU:3", 1)]),
        ("instance_group { kind: KIND_CPU count: 4 }", TWO_GPUS, [("CPU:0", 4)]),
        ("instance_group { kind: KIND_GPU gpus: 3 count: 4 }", TWO_GPUS, [("GPU:3", 4)]),
        ("instance_group { gpus: 1 }", TWO_GPUS, [("GPU:1", 1)]),
        ("instance_group { gpus: 3 count: 2 } instance_group { count: 1 }", TWO_GPUS, [("GPU:1", 1), ("GPU:3", 3)]),
        ("instance_group { kind: KIND_MODEL count: 3 }", TWO_GPUS, [("None", 3)]),
        ("instance_group { kind: KIND_CPU } instance_group { gpus: 1 }", TWO_GPUS, [("CPU:0", 1), ("GPU:1", 1)]),
    ],
)
def test_count_is_that_of_workers_on_each_device_of_a_group(text, devices, expected):
    assert workers(text, devices) == expected


@pytest.mark.parametrize(
    ("text", "devices", "says"),
    [
        ("instance_group { kind: KIND_GPU }", (CPU,), "'clip_0' asks for a GPU, but this server uses CPU:0"),
        ("instance_group { gpus: 0 }", (CPU,), "'clip_0' asks for a GPU, but this server uses CPU:0"),
        (
            'instance_group { name: "a" kind: KIND_GPU gpus: [ 1, 2 ] }',
            TWO_GPUS,
            "'a' asks for GPU 2, but this server uses GPU:1, GPU:3",
        ),
        ("instance_group { kind: KIND_CPU gpus: 1 }", TWO_GPUS, "'clip_0' names gpus, but is of KIND_CPU"),
        ("instance_group { kind: KIND_MODEL gpus: 1 }", TWO_GPUS, "'clip_0' names gpus, but is of KIND_MODEL"),
        ("instance_group { count: 513 }", TWO_GPUS, "instance_group has a count of 1026; at most 1024 can run"),
    ],
)
def test_what_there_is_not_is_refused_with_the_model(text, devices, says):
    with pytest.raises(LoadError) as refusal:
        completed(text, devices)

    assert str(refusal.value).startswith("model 'clip': ")
    assert says in str(refusal.value)


def test_completed_groups_say_which_gpus_they_mean():
    (group,) = completed("", TWO_GPUS)

    assert (group.name, group.kind, list(group.gpus), group.count) == ("clip", ModelInstanceGroup.KIND_GPU, [1, 3], 2)


def test_completed_groups_are_complete():
    (group,) = completed("", TWO_GPUS)
    (again,) = completed(f"instance_group {{ {text_format.MessageToString(group)} }}", TWO_GPUS)

    assert again == group
