"""A caller over a real connection from beyond loopback gets none of this host's shared memory."""

import socket

import grpc
import numpy as np
import psutil
import pytest

from protos import grpc_service_pb2_grpc
from tests.memory_objects import memory_objects
from tests.service.serving import WAIT_S, kit, rows, serving
from tests.service.test_shared_memory_inference import register, request
from tests.service.transports.channels import bind, failure, run


def other_address():
    """Return an address of this host that is not loopback."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return address.address
    pytest.skip("this machine has no address but loopback")


@pytest.mark.usefixtures("each_transport")
def test_only_a_caller_over_loopback_uses_regions():
    address = other_address()

    async def main():
        with memory_objects() as make, serving(kit()) as served:
            memory = make(4096)
            memory.write(rows(7))
            register(served, "in", memory)
            transport = bind(served.servicer, addresses=[f"{address}:0", "127.0.0.1:0"])
            await transport.start()
            try:
                far, near = transport.addresses
                async with grpc.aio.insecure_channel(near) as channel:
                    stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                    answer = await stub.ModelInfer(request(), timeout=WAIT_S)
                assert np.frombuffer(answer.raw_output_contents[0], np.float32).any()
                async with grpc.aio.insecure_channel(far) as channel:
                    stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                    code, text = await failure(stub.ModelInfer(request(), timeout=WAIT_S))
                assert code is grpc.StatusCode.NOT_FOUND
                assert "'in'" in text
            finally:
                await transport.stop(0)

    run(main)
