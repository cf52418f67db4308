"""Answers that are waited for: they come when they are there, hold nobody up, and are given up with their caller."""

import asyncio
from concurrent.futures import Future

import grpc
import pytest
from tritonclient.grpc import service_pb2, service_pb2_grpc

from protos import grpc_service_pb2 as pb
from service.errors import LoadError
from service.servicer import Later, Servicer
from tests.service.serving import WAIT_S, kit, serving
from tests.service.transports.channels import bind

pytestmark = pytest.mark.usefixtures("each_transport")


class Rpcs:
    """Answers RepositoryModelLoad with futures that the test completes."""

    def __init__(self):
        self.futures = asyncio.Queue()

    def unary_methods(self):
        return {"RepositoryModelLoad": (pb.RepositoryModelLoadRequest, self._load)}

    def _load(self, _request, _caller):
        future = Future()
        self.futures.put_nowait(future)
        return Later(future, lambda _: pb.RepositoryModelLoadResponse())


def run(main):
    """Run ``main(stub, rpcs)`` against a transport, within a bounded time."""

    async def serve(served):
        rpcs = Rpcs()
        servicer = Servicer(
            served.repository, served.data_plane, name="mine", version="1", is_ready=lambda: True, further=[rpcs]
        )
        transport = bind(servicer)
        await transport.start()
        try:
            async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
                await main(service_pb2_grpc.GRPCInferenceServiceStub(channel), rpcs)
        finally:
            await transport.stop(0)

    with serving(kit()) as served:
        asyncio.run(asyncio.wait_for(serve(served), 2 * WAIT_S))


def load(stub, **options):
    return stub.RepositoryModelLoad(service_pb2.RepositoryModelLoadRequest(model_name="clip"), **options)


def test_answer_comes_when_it_is_there_and_holds_nobody_up():
    async def main(stub, rpcs):
        call = load(stub)
        future = await rpcs.futures.get()
        assert (await stub.ServerLive(service_pb2.ServerLiveRequest())).live
        assert not call.done()
        await asyncio.to_thread(future.set_result, None)
        assert await call == service_pb2.RepositoryModelLoadResponse()

    run(main)


def test_failure_has_the_status_of_its_kind():
    async def main(stub, rpcs):
        call = load(stub)
        (await rpcs.futures.get()).set_exception(LoadError("it is broken"))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert caught.value.details() == "it is broken"

    run(main)


def test_caller_whose_deadline_passes_gives_up_what_was_not_begun():
    async def main(stub, rpcs):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await load(stub, timeout=0.05)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        future = await rpcs.futures.get()
        ended = asyncio.Event()
        future.add_done_callback(lambda _: ended.set())
        await ended.wait()
        assert future.cancelled()

    run(main)


def test_what_was_begun_goes_on_without_its_caller():
    async def main(stub, rpcs):
        call = load(stub)
        future = await rpcs.futures.get()
        assert future.set_running_or_notify_cancel()
        call.cancel()
        assert (await stub.ServerLive(service_pb2.ServerLiveRequest())).live
        future.set_result(None)
        assert not future.cancelled()

    run(main)
