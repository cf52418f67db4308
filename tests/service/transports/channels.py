"""A real transport in the event loop of the test, over models made of NumPy functions, and a client for it."""

import asyncio
from contextlib import asynccontextmanager

import grpc

from protos import grpc_service_pb2_grpc
from service.access import ANYBODY
from service.settings import Settings
from service.transports.channel_options import channel_options
from service.transports.grpcio import GrpcioTransport
from service.transports.health import Health
from service.transports.native import NativeTransport
from tests.service.serving import WAIT_S

CLIENT_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Each channel has a connection of its own.
    ("grpc.use_local_subchannel_pool", 1),
)

kind = "grpcio"  # the fixture `each_transport` changes it


def bind(servicer, health=None, addresses=("127.0.0.1:0",), access=ANYBODY, **settings):
    """Return a transport with these settings, of the kind whose turn it is."""
    health, options = health or Health(), Settings(**settings)
    if kind == "native":
        return NativeTransport(servicer, health, addresses, options, access)
    socket_mode = int(options.grpc_unix_socket_mode, 8)
    return GrpcioTransport(
        servicer, health, addresses, channel_options(options), socket_mode=socket_mode, access=access
    )


def run(main):
    """Run a test's coroutine function, for a minute at most."""
    return asyncio.run(asyncio.wait_for(main(), 2 * WAIT_S))


class Connected:
    """A started transport and a channel to it."""

    def __init__(self, transport, health, channel):
        self.transport = transport
        self.health = health
        self.channel = channel
        self.address = transport.addresses[0]
        self.stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)

    def stream(self, **options):
        """Open a stream for requests."""
        return self.stub.ModelStreamInfer(**options)

    async def talk(self, requests, **options):
        """Send requests in one stream, end it and return all answers."""
        return [answer async for answer in self.stub.ModelStreamInfer(iter(requests), timeout=WAIT_S, **options)]


@asynccontextmanager
async def connected(served, **settings):
    """Serve with these settings at a free port until the block ends."""
    health = Health()
    transport = bind(served.servicer, health, **settings)
    await transport.start()
    try:
        async with grpc.aio.insecure_channel(transport.addresses[0], options=CLIENT_OPTIONS) as channel:
            yield Connected(transport, health, channel)
    finally:
        await transport.stop(WAIT_S)


async def eventually(condition):
    """Return when the condition holds; the test's time limit applies."""
    while not condition():  # noqa: ASYNC110 - what is waited for tells nobody of its changes
        await asyncio.sleep(0.001)


async def failure(call):
    """Return the status code and text with which a call fails."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()
    raise AssertionError("the call did not fail")
