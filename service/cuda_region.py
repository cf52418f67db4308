"""A region of GPU memory that a client shares by a CUDA IPC handle, copied to and from the host.

It needs the driver's Python bindings (``cuda.bindings``). Without them or without a GPU every handle is refused, as by
a Triton that was built without CUDA. A request copies its inputs to the host and its outputs back, which costs more
than a model that reads the client's memory in place would, but TensorFlow's Session takes host arrays.

Source: NVIDIA, CUDA Runtime API, device management (IPC) and memory management.
"""

import ctypes
import importlib
import logging
from typing import Any, Final

import numpy as np

from service.errors import InternalError, InvalidArgumentError

_HANDLE_BYTES: Final = 64

logger = logging.getLogger(__name__)


class _CudaError(Exception):
    """The bindings, the driver or the device cannot do what was asked."""


class CudaRegion:
    """GPU memory of another process. All methods may be called from any thread.

    Attributes:
        name: the name by which requests refer to it.
        device_id: the number of the device that holds it.
        byte_size: how long it is.
    """

    def __init__(self, name: str, raw_handle: bytes, device_id: int, byte_size: int) -> None:
        """Map the memory into this process.

        Args:
            name: of the region.
            raw_handle: the ``cudaIpcMemHandle_t`` of the allocation, 64 bytes.
            device_id: the number of the device that holds it.
            byte_size: at least 1, at most what was allocated.

        Raises:
            InvalidArgumentError: the memory cannot be mapped, or it is smaller.
        """
        self.name = name
        self.device_id = device_id
        self.byte_size = byte_size
        try:
            self._address = self._open(raw_handle)
        except _CudaError as error:
            raise InvalidArgumentError(
                f"failed to register shared memory region: invalid args: '{name}' on device {device_id}: {error}"
            ) from error

    def __repr__(self) -> str:
        return f"CudaRegion({self.name!r}, device_id={self.device_id}, byte_size={self.byte_size})"

    def _open(self, raw_handle: bytes) -> int:
        if len(raw_handle) != _HANDLE_BYTES:
            raise _CudaError(f"a handle has {_HANDLE_BYTES} bytes, got {len(raw_handle)}")
        runtime = self._runtime()
        handle = runtime.cudaIpcMemHandle_t()
        ctypes.memmove(handle.getPtr(), raw_handle, _HANDLE_BYTES)
        (address,) = _call(runtime.cudaIpcOpenMemHandle, handle, runtime.cudaIpcMemLazyEnablePeerAccess)
        allocated = _allocated(int(address))
        if not 1 <= self.byte_size <= allocated:
            _call(runtime.cudaIpcCloseMemHandle, address)
            raise _CudaError(f"byte size {self.byte_size}, but {allocated} bytes are allocated")
        return int(address)

    def _runtime(self) -> Any:
        """Return the bindings of the runtime, with the region's device chosen for this thread."""
        runtime = _bindings("runtime")
        _call(runtime.cudaSetDevice, self.device_id)
        return runtime

    def read(self, offset: int, size: int) -> bytes:
        """Copy bytes to the host. Raises InvalidArgumentError when the memory is no longer there."""
        host = np.empty(size, np.uint8)
        try:
            runtime = self._runtime()
            kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
            _call(runtime.cudaMemcpy, host.ctypes.data, self._address + offset, size, kind)
        except _CudaError as error:
            raise InvalidArgumentError(f"cannot read shared memory region '{self.name}': {error}") from error
        return host.tobytes()

    def write(self, offset: int, data: memoryview) -> None:
        """Copy bytes to the device. Raises InternalError when the memory is no longer there."""
        host = np.frombuffer(data, np.uint8)
        try:
            runtime = self._runtime()
            kind = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
            _call(runtime.cudaMemcpy, self._address + offset, host.ctypes.data, host.nbytes, kind)
            # A copy from pageable memory may return before the device has it all.
            _call(runtime.cudaStreamSynchronize, 0)
        except _CudaError as error:
            raise InternalError(f"cannot write to shared memory region '{self.name}': {error}") from error

    def close(self) -> None:
        """Unmap the memory."""
        try:
            _call(self._runtime().cudaIpcCloseMemHandle, self._address)
        except _CudaError as error:
            logger.warning("cannot unmap %r: %s", self, error)


def _bindings(part: str) -> Any:
    try:
        return importlib.import_module(f"cuda.bindings.{part}")
    except ImportError as error:
        raise _CudaError("this server has no GPU: the Python bindings of CUDA are not installed") from error


def _call(function: Any, *arguments: object) -> list[Any]:
    """Call a function of the bindings; return what it gives besides its status."""
    try:
        status, *results = function(*arguments)
    except (RuntimeError, OverflowError) as error:
        # Without the driver's library, or a number that C cannot hold.
        raise _CudaError(str(error)) from error
    if status != type(status)(0):
        raise _CudaError(f"{function.__name__} failed with {status.name}")
    return list(results)


def _allocated(address: int) -> int:
    """Return how many bytes from an address on belong to its allocation."""
    driver = _bindings("driver")
    base, size = _call(driver.cuMemGetAddressRange, driver.CUdeviceptr(address))
    return int(base) + int(size) - address
