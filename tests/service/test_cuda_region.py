"""GPU memory of another process, on machines that have a GPU and the driver's Python bindings.

Tests hide GPUs unless told otherwise: ``CUDA_VISIBLE_DEVICES=0 pytest tests/service/test_cuda_region.py``.
"""

import importlib
import subprocess
import sys

import pytest

from service.cuda_region import CudaRegion
from service.errors import InvalidArgumentError

# The other process: allocates and fills memory, tells the handle, and on request what the memory holds.
EXPORTER = """
import ctypes, sys
from cuda.bindings import runtime
def call(function, *arguments):
    status, *results = function(*arguments)
    assert status == runtime.cudaError_t.cudaSuccess, (function.__name__, status)
    return results
call(runtime.cudaSetDevice, 0)
(address,) = call(runtime.cudaMalloc, 4096)
host = ctypes.create_string_buffer(bytes(range(256)) * 16, 4096)
call(runtime.cudaMemcpy, address, ctypes.addressof(host), 4096, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice)
call(runtime.cudaDeviceSynchronize)
(handle,) = call(runtime.cudaIpcGetMemHandle, address)
print(ctypes.string_at(handle.getPtr(), 64).hex(), flush=True)
sys.stdin.readline()
call(runtime.cudaMemcpy, ctypes.addressof(host), address, 4096, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost)
print(host.raw.hex(), flush=True)
"""


def _has_gpu():
    try:
        runtime = importlib.import_module("cuda.bindings.runtime")
        status, count = runtime.cudaGetDeviceCount()
    except (ImportError, RuntimeError):
        return False
    return status == runtime.cudaError_t.cudaSuccess and count > 0


pytestmark = pytest.mark.skipif(not _has_gpu(), reason="no GPU, or the package cuda-bindings is not installed")


class Exporter:
    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-c", EXPORTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.handle = bytes.fromhex(self.process.stdout.readline())

    def content(self):
        """Return what the memory holds, and end the process."""
        output, _ = self.process.communicate("\n", timeout=60)
        return bytes.fromhex(output)


@pytest.fixture
def exporter():
    made = Exporter()
    yield made
    made.process.kill()
    made.process.communicate()


def test_memory_of_another_process_is_read_and_written(exporter):
    region = CudaRegion("g", exporter.handle, 0, 4096)
    assert region.read(250, 10) == bytes(range(250, 256)) + bytes(range(4))

    region.write(3, memoryview(b"written"))
    region.close()
    assert exporter.content()[:12] == bytes(range(3)) + b"written" + bytes([10, 11])


@pytest.mark.parametrize("byte_size", [0, 2**21 + 1, 2**64 - 1])
def test_more_than_was_allocated_is_refused(exporter, byte_size):
    # The device allocates in pieces of up to 2 MiB, and only their bounds can be known here.
    with pytest.raises(InvalidArgumentError, match=f"byte size {byte_size}, but"):
        CudaRegion("g", exporter.handle, 0, byte_size)


def test_another_device_number_is_refused(exporter):
    with pytest.raises(InvalidArgumentError, match="cudaSetDevice failed"):
        CudaRegion("g", exporter.handle, 1000, 4096)
