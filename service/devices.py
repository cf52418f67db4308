"""The devices that models run on: what the server's option says, and what a model is placed on."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self


class DeviceKind(Enum):
    """What computes; the names are TensorFlow's."""

    CPU = "CPU"
    GPU = "GPU"


class GpuAllocator(Enum):
    """What hands out the memory of GPUs; the names are TensorFlow's."""

    BFC = "bfc"
    """TensorFlow's own, which keeps what it once took."""
    CUDA_MALLOC_ASYNC = "cuda_malloc_async"
    """The driver's, which is less prone to gaps."""


@dataclass(frozen=True)
class Device:
    """One device of this process.

    Attributes:
        kind: of the device.
        index: its number in this process, which TensorFlow counts from 0 over the devices that it may see.
        number: its number on the machine, by which options, configurations and the log name it.
    """

    kind: DeviceKind
    index: int
    number: int

    def __str__(self) -> str:
        return f"{self.kind.value}:{self.number}"

    @property
    def placement(self) -> str:
        """The device as TensorFlow's graphs name it."""
        return f"/device:{self.kind.value}:{self.index}"


CPU: Final = Device(DeviceKind.CPU, 0, 0)
"""The processors of this machine, all together."""


@dataclass(frozen=True)
class Instances:
    """Workers of a model that share one copy of its weights.

    Attributes:
        device: where the copy lies; None leaves the choice to the graph and TensorFlow.
        count: the workers, at least 1.
    """

    device: Device | None
    count: int


@dataclass(frozen=True)
class DeviceChoice:
    """The devices that a server may use.

    Attributes:
        kind: None takes GPUs where there are any, else the CPU.
        numbers: on the machine; none means all GPUs, or the CPU as one device. Numbers of the CPU are logical devices
            that share its cores, which shows on any machine what several devices do.
    """

    kind: DeviceKind | None = None
    numbers: tuple[int, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``auto``, ``cpu``, ``gpu``, ``gpu:0,1`` or ``cpu:0,1``.

        Raises:
            ValueError: it is something else, or names a device twice.
        """
        found = re.fullmatch(r"auto|(cpu|gpu)(?::([0-9]{1,3}(?:,[0-9]{1,3})*))?", text)
        if found is None:
            raise ValueError("expected auto, cpu, gpu or numbers of devices such as gpu:0,1")
        numbers = tuple(int(number) for number in (found[2] or "").split(",") if number)
        if len(set(numbers)) < len(numbers):
            raise ValueError("a device is named twice")
        return cls(DeviceKind(found[1].upper()) if found[1] else None, numbers)

    def __str__(self) -> str:
        kind = "auto" if self.kind is None else self.kind.value.lower()
        return f"{kind}:{','.join(map(str, self.numbers))}" if self.numbers else kind

    def cpus(self) -> tuple[Device, ...]:
        """Return the logical devices of the CPU that are chosen by number, or the CPU as one device."""
        return tuple(Device(DeviceKind.CPU, index, number) for index, number in enumerate(self.numbers)) or (CPU,)

    def gpus(self, present: int) -> tuple[Device, ...]:
        """Return the chosen ones of the GPUs that are there.

        Args:
            present: how many there are.

        Raises:
            ValueError: there is none, or not that of a number.
        """
        if not present:
            raise ValueError("there is no GPU that TensorFlow can use")
        missing = [number for number in self.numbers if number >= present]
        if missing:
            raise ValueError(f"there is no GPU {missing[0]}; there are {present}, counted from 0")
        numbers = self.numbers or range(present)
        return tuple(Device(DeviceKind.GPU, index, number) for index, number in enumerate(numbers))
