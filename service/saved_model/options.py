"""What the whole process tells TensorFlow before it starts."""

import logging
from dataclasses import dataclass, field
from pathlib import Path

from service.devices import DeviceChoice, GpuAllocator


@dataclass(frozen=True)
class RuntimeOptions:
    """Settings that TensorFlow keeps for the life of the process. 0 threads means: from the CPU limit of the cgroup.

    Attributes:
        intra_op_threads: threads that one op may use.
        inter_op_threads: threads that run ops beside each other.
        omp_threads: threads of the OpenMP runtime, which some CPU libraries use.
        device: what models may run on.
        gpu_memory_mib: the most that is taken of each GPU, 0 for no limit. Memory is taken as it is needed.
        gpu_allocator: what hands it out.
        op_libraries: shared objects that register further ops.
        log_level: the lowest level of TensorFlow's own log lines that are shown, as in ``logging``. At WARNING it
            writes a line for each run that fails.
    """

    intra_op_threads: int = 0
    inter_op_threads: int = 0
    omp_threads: int = 0
    device: DeviceChoice = field(default_factory=DeviceChoice)
    gpu_memory_mib: int = 0
    gpu_allocator: GpuAllocator = GpuAllocator.BFC
    op_libraries: tuple[Path, ...] = ()
    log_level: int = logging.ERROR

    def __post_init__(self) -> None:
        for name in ("intra_op_threads", "inter_op_threads", "omp_threads", "gpu_memory_mib"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
