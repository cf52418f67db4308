"""The RPCs that register, list and forget regions of shared memory."""

import logging
from functools import partial

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.cuda_region import CudaRegion
from service.errors import NotFoundError
from service.servicer import UnaryMethods
from service.shared_memory import R, Regions
from service.system_region import SystemRegion, room

logger = logging.getLogger(__name__)


class SharedMemoryRpcs:
    """Registers regions for callers who may use shared memory.

    Others get what Triton answers where client shared memory is switched off: UNIMPLEMENTED to changes, and a status
    without regions.
    """

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._told_room = False

    def unary_methods(self) -> UnaryMethods:
        """Return the RPCs for POSIX shared memory and those for GPU memory."""
        return {
            "SystemSharedMemoryStatus": (pb.SystemSharedMemoryStatusRequest, self.system_status),
            "SystemSharedMemoryRegister": (pb.SystemSharedMemoryRegisterRequest, self.system_register),
            "SystemSharedMemoryUnregister": (pb.SystemSharedMemoryUnregisterRequest, self.system_unregister),
            "CudaSharedMemoryStatus": (pb.CudaSharedMemoryStatusRequest, self.cuda_status),
            "CudaSharedMemoryRegister": (pb.CudaSharedMemoryRegisterRequest, self.cuda_register),
            "CudaSharedMemoryUnregister": (pb.CudaSharedMemoryUnregisterRequest, self.cuda_unregister),
        }

    def system_status(
        self, request: pb.SystemSharedMemoryStatusRequest, caller: Caller
    ) -> pb.SystemSharedMemoryStatusResponse:
        """Tell of one region of POSIX shared memory, or of all."""
        response = pb.SystemSharedMemoryStatusResponse()
        for region in self._registered(SystemRegion, "system", request.name, caller):
            status = response.regions[region.name]
            status.name, status.key = region.name, region.key
            status.offset, status.byte_size = region.offset, region.byte_size
        return response

    def system_register(
        self, request: pb.SystemSharedMemoryRegisterRequest, caller: Caller
    ) -> pb.SystemSharedMemoryRegisterResponse:
        """Open a POSIX shared-memory object of a client."""
        self._regions.check_open_to(caller)
        name = request.name
        self._regions.register(name, partial(SystemRegion, name, request.key, request.offset, request.byte_size))
        self._tell_room()
        return pb.SystemSharedMemoryRegisterResponse()

    def _tell_room(self) -> None:
        """Log at the first use how much there is, since containers get 64 MiB unless told otherwise."""
        if not self._told_room:
            self._told_room = True
            logger.info("a client registered shared memory; %s", room())

    def system_unregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, caller: Caller
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        """Forget one region of POSIX shared memory, or all; the last request that uses one closes it."""
        self._regions.check_open_to(caller)
        self._regions.unregister(SystemRegion, request.name)
        return pb.SystemSharedMemoryUnregisterResponse()

    def cuda_status(
        self, request: pb.CudaSharedMemoryStatusRequest, caller: Caller
    ) -> pb.CudaSharedMemoryStatusResponse:
        """Tell of one region of GPU memory, or of all."""
        response = pb.CudaSharedMemoryStatusResponse()
        for region in self._registered(CudaRegion, "cuda", request.name, caller):
            status = response.regions[region.name]
            status.name, status.device_id, status.byte_size = region.name, region.device_id, region.byte_size
        return response

    def cuda_register(
        self, request: pb.CudaSharedMemoryRegisterRequest, caller: Caller
    ) -> pb.CudaSharedMemoryRegisterResponse:
        """Open GPU memory of a client."""
        self._regions.check_open_to(caller)
        name = request.name
        self._regions.register(
            name, partial(CudaRegion, name, request.raw_handle, request.device_id, request.byte_size)
        )
        return pb.CudaSharedMemoryRegisterResponse()

    def cuda_unregister(
        self, request: pb.CudaSharedMemoryUnregisterRequest, caller: Caller
    ) -> pb.CudaSharedMemoryUnregisterResponse:
        """Forget one region of GPU memory, or all; without a GPU there is none, which is no fault."""
        self._regions.check_open_to(caller)
        self._regions.unregister(CudaRegion, request.name)
        return pb.CudaSharedMemoryUnregisterResponse()

    def _registered(self, kind: type[R], word: str, name: str, caller: Caller) -> list[R]:
        found = self._regions.registered(kind, name) if self._regions.is_open_to(caller) else []
        if name and not found:
            raise NotFoundError(f"Unable to find {word} shared memory region: '{name}'")
        return found
