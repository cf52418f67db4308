"""What the options do to a connection."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from protos import grpc_service_pb2_grpc
from service.settings import Settings
from service.transports.channel_options import channel_options
from tests.service.serving import WAIT_S, kit, message, rows, serving
from tests.service.transports.channels import CLIENT_OPTIONS, connected, run
from tests.service.transports.raw_http2 import send_pings

NOT_PERMITTED = {"grpc_keepalive_permit_without_calls": False}
TOO_MANY = "too_many_pings"
# gRPC's core numbers its algorithms; 1 is the bit of "none".
ONLY_UNCOMPRESSED = ("grpc.compression_enabled_algorithms_bitset", 1)


def ping(count, interval_s=0.0, **settings):
    async def main():
        with serving(kit()) as served:
            async with connected(served, **settings) as client:
                return await send_pings(client.address, count, interval_s)

    return run(main)


def test_client_that_pings_all_the_time_is_thrown_out():
    answered, reason = ping(10)

    assert reason == TOO_MANY
    assert answered < 10


def test_pings_at_the_permitted_interval_are_welcome_without_calls():
    assert ping(10, 0.1, grpc_http2_min_recv_ping_interval_without_data=50) == (10, None)


def test_pings_below_the_permitted_interval_are_not():
    assert ping(10, 0.01, grpc_http2_min_recv_ping_interval_without_data=10_000)[1] == TOO_MANY


def test_strikes_can_be_unlimited():
    assert ping(50, grpc_http2_max_ping_strikes=0) == (50, None)


def test_pings_without_calls_can_be_forbidden():
    answered, reason = ping(10, 0.1, grpc_http2_min_recv_ping_interval_without_data=50, **NOT_PERMITTED)

    assert reason == TOO_MANY
    assert answered < 10


class CountingProxy:
    """Passes a connection on, and counts the bytes that the server sends."""

    def __init__(self, address):
        self._host, _, self._port = address.rpartition(":")
        self.from_server = 0
        self._handlers = set()

    @asynccontextmanager
    async def listen(self):
        server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        async with server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            for handler in self._handlers:
                handler.cancel()
            await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _handle(self, reader, writer):
        self._handlers.add(asyncio.current_task())
        server_reader, server_writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            await asyncio.gather(
                self._pass_on(reader, server_writer), self._pass_on(server_reader, writer, counted=True)
            )
        finally:
            for each in (writer, server_writer):
                each.transport.abort()
                each.close()

    async def _pass_on(self, reader, writer, *, counted=False):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
            self.from_server += len(data) * counted
        writer.close()


def answer_bytes(settings, client_options=(), *, streamed=False, **call_options):
    """Return how many bytes an answer of 1 MB of equal numbers takes on the wire."""
    x = np.ones((125_000, 2), np.float32)

    async def main():
        with serving(kit(), default_max_batch_size=len(x)) as served:
            async with connected(served, **settings) as client:
                proxy = CountingProxy(client.address)
                options = (*CLIENT_OPTIONS, *client_options)
                async with proxy.listen() as address, grpc.aio.insecure_channel(address, options=options) as channel:
                    stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                    if streamed:
                        call = stub.ModelStreamInfer(iter([message({"x": x})]), timeout=WAIT_S, **call_options)
                        (answer,) = [each.infer_response async for each in call]
                    else:
                        answer = await stub.ModelInfer(message({"x": x}), timeout=WAIT_S, **call_options)
                assert answer.raw_output_contents[0] == (2 * x).tobytes()
                return proxy.from_server

    return run(main)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_answered_uncompressed_unless_configured(algorithm, streamed):
    assert answer_bytes({}, streamed=streamed, compression=algorithm) > 1_000_000


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_answers_are_compressed_when_configured(level, streamed):
    settings = {"grpc_infer_response_compression_level": level}

    assert answer_bytes(settings, streamed=streamed) < 100_000


def test_client_that_accepts_no_compression_gets_none():
    settings = {"grpc_infer_response_compression_level": "high"}

    assert answer_bytes(settings, [ONLY_UNCOMPRESSED]) > 1_000_000


@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_every_rpc_takes_compressed_requests(algorithm):
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                request = pb.ModelMetadataRequest(name="clip" + ":embed")
                metadata = await client.stub.ModelMetadata(request, timeout=WAIT_S, compression=algorithm)
                answer = await client.stub.ModelInfer(message({"x": rows(*[1] * 64)}), compression=algorithm)
                return metadata.name, answer.model_name

    assert run(main) == ("clip:embed", "clip")


@pytest.mark.parametrize("streamed", [False, True])
def test_twenty_megabytes_pass_in_and_out(streamed):
    x = np.random.default_rng(1).standard_normal((2_500_000, 2), np.float32)

    async def main():
        with serving(kit(), default_max_batch_size=len(x)) as served:
            async with connected(served) as client:
                if streamed:
                    (answer,) = await client.talk([message({"x": x})])
                    answer = answer.infer_response
                else:
                    answer = await client.stub.ModelInfer(message({"x": x}), timeout=WAIT_S)
                return answer.raw_output_contents[0] == (2 * x).tobytes()

    assert run(main)


def test_old_connection_is_ended_and_calls_go_on_over_a_new_one():
    async def main():
        with serving(kit()) as served:
            settings = {"grpc_max_connection_age": 200, "grpc_max_connection_age_grace": 100}
            async with connected(served, **settings) as client:
                live = pb.ServerLiveRequest()
                await client.stub.ServerLive(live, timeout=WAIT_S)
                state = client.channel.get_state()
                while state is grpc.ChannelConnectivity.READY:
                    await client.channel.wait_for_state_change(state)
                    state = client.channel.get_state()
                return (await client.stub.ServerLive(live, timeout=WAIT_S, wait_for_ready=True)).live

    assert run(main)


async def lifetime(address):
    """Return for how many seconds a server keeps a new connection."""
    loop = asyncio.get_running_loop()
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        state = channel.get_state(try_to_connect=True)
        while state is not grpc.ChannelConnectivity.READY:
            await channel.wait_for_state_change(state)
            state = channel.get_state()
        begun = loop.time()
        await channel.wait_for_state_change(state)
        return loop.time() - begun


def test_connections_of_one_age_do_not_end_together():
    """gRPC spreads the age by a tenth to both sides, so that not all clients of a server connect anew at once."""
    age_s, connections = 1.0, 32

    async def main():
        with serving(kit()) as served:
            async with connected(served, grpc_max_connection_age=int(1000 * age_s)) as client:
                return await asyncio.gather(*(lifetime(client.address) for _ in range(connections)))

    lifetimes = run(main)
    assert min(lifetimes) > 0.89 * age_s
    assert min(lifetimes) < age_s < max(lifetimes)
    assert max(lifetimes) - min(lifetimes) > 0.05 * age_s


def test_zero_means_that_connections_may_grow_old():
    names = {name for name, _ in channel_options(Settings())}

    assert names.isdisjoint({"grpc.max_connection_age_ms", "grpc.max_connection_age_grace_ms"})


@pytest.mark.parametrize(("time_ms", "timeout_ms", "own_pings_ms"), [(1000, 500, 1500), (50_000, 20_000, None)])
def test_pings_of_grpc_itself_never_wait_longer_than_those_for_keepalive(time_ms, timeout_ms, own_pings_ms):
    settings = Settings(grpc_keepalive_time=time_ms, grpc_keepalive_timeout=timeout_ms)

    assert dict(channel_options(settings)).get("grpc.http2.ping_timeout_ms") == own_pings_ms


@pytest.mark.parametrize(
    ("setting", "argument"),
    [
        ("grpc_keepalive_time", "grpc.keepalive_time_ms"),
        ("grpc_keepalive_timeout", "grpc.keepalive_timeout_ms"),
        ("grpc_http2_max_pings_without_data", "grpc.http2.max_pings_without_data"),
        ("grpc_max_connections", "grpc.max_allowed_incoming_connections"),
        ("grpc_max_receive_message_length", "grpc.max_receive_message_length"),
        ("grpc_max_connection_age", "grpc.max_connection_age_ms"),
        ("grpc_max_connection_age_grace", "grpc.max_connection_age_grace_ms"),
    ],
)
def test_option_is_the_channel_argument_in_the_same_unit(setting, argument):
    assert (argument, 1234) in channel_options(Settings(**{setting: 1234}))
