"""What the option says of devices, and which devices that comes to."""

import pytest

from service.devices import CPU, Device, DeviceChoice, DeviceKind


@pytest.mark.parametrize("text", ["auto", "cpu", "gpu", "gpu:0", "gpu:2,0", "cpu:0,1"])
def test_choice_reads_what_it_writes(text):
    assert str(DeviceChoice.parse(text)) == text


@pytest.mark.parametrize("text", ["", "GPU", "auto:0", "gpu:", "gpu:0,", "gpu:-1", "gpu:1.5", "gpu:0 ", "tpu", "gpu:٣"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="expected auto, cpu, gpu"):
        DeviceChoice.parse(text)


def test_device_named_twice_is_refused():
    with pytest.raises(ValueError, match="a device is named twice"):
        DeviceChoice.parse("gpu:1,1")


def test_all_gpus_are_meant_where_none_is_named():
    gpus = DeviceChoice.parse("gpu").gpus(2)

    assert gpus == (Device(DeviceKind.GPU, 0, 0), Device(DeviceKind.GPU, 1, 1))
    assert DeviceChoice.parse("auto").gpus(2) == gpus


def test_chosen_gpus_keep_the_machines_numbers_and_get_those_of_the_process():
    first, second = DeviceChoice.parse("gpu:3,1").gpus(4)

    assert [str(first), first.placement] == ["GPU:3", "/device:GPU:0"]
    assert [str(second), second.placement] == ["GPU:1", "/device:GPU:1"]


@pytest.mark.parametrize(
    ("text", "present", "says"),
    [
        ("gpu", 0, "there is no GPU that TensorFlow can use"),
        ("gpu:0,2", 2, "there is no GPU 2; there are 2, counted from 0"),
    ],
)
def test_gpu_that_is_not_there_is_named(text, present, says):
    with pytest.raises(ValueError, match=says):
        DeviceChoice.parse(text).gpus(present)


def test_cpu_is_one_device_unless_parts_of_it_are_numbered():
    assert DeviceChoice.parse("cpu").cpus() == (CPU,)
    assert [str(device) for device in DeviceChoice.parse("cpu:0,1").cpus()] == ["CPU:0", "CPU:1"]
