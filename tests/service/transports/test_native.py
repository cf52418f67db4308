"""What the native transport does of its own: bounds, ends, broken connections, who counts as local."""

import asyncio
import socket
import tempfile

import grpc
import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from service.caller import LOCAL, UNKNOWN
from service.transports.native import io_threads
from tests.service.serving import WAIT_S, Gate, kit, message, rows, serving
from tests.service.transports import channels
from tests.service.transports.channels import CLIENT_OPTIONS, Connected, connected, eventually, failure, run
from tests.service.transports.raw_http2 import send_pings

STATUS = grpc.StatusCode
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the test asks for it


@pytest.fixture(autouse=True)
def _native(monkeypatch):
    monkeypatch.setattr(channels, "kind", "native")


@pytest.fixture
def own_directory(monkeypatch, tmp_path):
    """Have directories for a while made here."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (3, 1), (4, 2), (8, 4), (64, 4)])
def test_half_of_the_cores_but_few_speak_http2(cores, threads):
    assert io_threads(cores) == threads


# The end. --------------------------------------------------------------------------------------------------------


def test_large_answers_arrive_whole_although_the_server_stops_at_once():
    gate = Gate()
    large = message({"x": np.ones((1_000_000, 2), np.float32)}, signature="store")

    async def main():
        with serving(kit(store=gate)) as served:
            async with connected(served) as client:
                calls = [client.stub.ModelInfer(large, timeout=WAIT_S) for _ in range(10)]
                await asyncio.to_thread(gate.wait_until_entered)
                (target,) = served.repository.find_ready("clip")
                await eventually(lambda: target.loaded.scheduler.counts().queued_tasks == 9)
                gate.opened.set()
                await client.transport.stop(WAIT_S)
                # asyncio writes a result down in full for nobody, so not the answers themselves.
                return [len((await call).raw_output_contents[0]) for call in calls]

    assert run(main) == [8_000_000] * 10


def test_stop_under_load_loses_no_call_that_was_taken_and_runs_none_that_was_refused():
    """Callers who try again at once do not keep the server from stopping."""

    async def ask_until_refused(client, number, answered, refused):
        for turn in range(100_000):
            value = 1000 * number + turn % 1000
            try:
                answer = await client.stub.ModelInfer(message({"x": rows(value)}), timeout=WAIT_S)
            except grpc.aio.AioRpcError as error:
                refused.append(error.code())
                if refused.count(error.code()) > 200:
                    return
            else:
                answered.append(np.frombuffer(answer.raw_output_contents[0], np.float32)[0] == 2 * value)

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                answered, refused = [], []
                callers = [
                    asyncio.create_task(ask_until_refused(client, number, answered, refused)) for number in range(16)
                ]
                await eventually(lambda: len(answered) > 200)
                await asyncio.wait_for(client.transport.stop(WAIT_S), WAIT_S / 2)
                await asyncio.gather(*callers)
                return answered, refused, served.statistics("clip").success.count

    answered, refused, succeeded = run(main)
    assert all(answered)
    assert set(refused) == {STATUS.UNAVAILABLE}
    assert len(answered) == succeeded


def test_probes_are_answered_while_the_server_finishes_what_it_took():
    gate = Gate()

    async def main():
        with serving(kit(store=gate), is_ready=False) as served:
            async with connected(served) as client:
                taken = client.stub.ModelInfer(message(signature="store"), timeout=WAIT_S)
                await asyncio.to_thread(gate.wait_until_entered)
                stopping = asyncio.create_task(client.transport.stop(WAIT_S))
                await eventually(lambda: "refusing" in repr(client.transport._fronts[0]))
                ready = (await client.stub.ServerReady(pb.ServerReadyRequest(), timeout=WAIT_S)).ready
                live = (await client.stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live
                refusal = await failure(client.stub.ServerMetadata(pb.ServerMetadataRequest(), timeout=WAIT_S))
                gate.opened.set()
                await taken
                await stopping
                return ready, live, refusal

    assert run(main) == (False, True, (STATUS.UNAVAILABLE, "the server is stopping"))


def test_socket_behind_is_for_this_user_alone_and_gone_after_the_end(own_directory):
    async def main():
        with serving(kit()) as served:
            async with connected(served):
                (directory,) = own_directory.iterdir()
                return directory.stat().st_mode & 0o777, [path.name for path in directory.iterdir()]

    assert run(main) == (0o700, ["grpcio.sock"])
    assert list(own_directory.iterdir()) == []


def test_address_that_is_taken_leaves_no_directory_and_no_other_address_behind(own_directory):
    async def main():
        with serving(kit()) as served, socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            addresses = (f"unix:{own_directory}/a.sock", f"127.0.0.1:{taken.getsockname()[1]}")
            with pytest.raises(OSError, match=f"cannot listen on {addresses[1]}"):
                channels.bind(served.servicer, addresses=addresses)

    run(main)
    assert [path for path in own_directory.iterdir() if path.is_dir()] == []


# Who is local. ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "expected"),
    [("127.0.0.1:0", (LOCAL, LOCAL)), ("unix:", (LOCAL, LOCAL)), (f"{EVERYWHERE}:0", (LOCAL, UNKNOWN))],
)
def test_callers_over_loopback_are_local_and_streams_only_where_nobody_else_can_come(
    monkeypatch, tmp_path, address, expected
):
    """The grpcio server behind sees all streams come from its socket."""
    address = f"unix:{tmp_path}/s.sock" if address == "unix:" else address

    async def main():
        with serving(kit()) as served:
            seen, infer = [], served.servicer.infer

            def watched(request, deadline, done, caller, *more):
                seen.append(caller)
                return infer(request, deadline, done, caller, *more)

            monkeypatch.setattr(served.servicer, "infer", watched)
            transport = channels.bind(served.servicer, addresses=[address])
            await transport.start()
            target = transport.addresses[0].replace(EVERYWHERE, "127.0.0.1")
            async with grpc.aio.insecure_channel(target, options=CLIENT_OPTIONS) as channel:
                client = Connected(transport, None, channel)
                await client.stub.ModelInfer(message(), timeout=WAIT_S)
                await client.talk([message()])
            await transport.stop(0)
            return tuple(seen)

    assert run(main) == expected


# What differs from grpcio, as docs/native-transport.md tells. ----------------------------------------------------


@pytest.mark.parametrize(("options", "is_served"), [((), False), ((("grpc.default_authority", "signet"),), True)])
def test_target_that_lists_addresses_needs_an_authority(options, is_served):
    """The client would send the list as the authority, which is none."""

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                listed = f"ipv4:{client.address},{client.address}"
                async with grpc.aio.insecure_channel(listed, options=(*CLIENT_OPTIONS, *options)) as channel:
                    other = Connected(client.transport, None, channel)
                    try:
                        return bool((await other.stub.ModelInfer(message(), timeout=5)).outputs)
                    except grpc.aio.AioRpcError:
                        return False

    assert run(main) is is_served


def test_client_may_ping_as_often_as_it_likes():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                return await send_pings(client.address, 50, 0.0)

    assert run(main) == (50, None)


# Broken connections. ---------------------------------------------------------------------------------------------

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
ODD = {
    "nothing": b"",
    "HTTP/1": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "no HTTP": bytes(range(256)) * 100,
    "preface alone": PREFACE,
    "cut frame": PREFACE + SETTINGS + b"\0\xff\xff\1\4\0\0\0\1abc",
    "frame of an unknown stream": PREFACE + SETTINGS + b"\0\0\4\0\0\0\0\0\7abcd",
    "headers that are none": PREFACE + SETTINGS + b"\0\0\4\1\5\0\0\0\1\xff\xff\xff\xff",
}


@pytest.mark.parametrize("sent", ODD.values(), ids=ODD)
def test_broken_connection_harms_nobody(sent):
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                host, _, port = client.address.rpartition(":")
                for _ in range(20):
                    _, writer = await asyncio.open_connection(host, int(port))
                    writer.write(sent)
                    await writer.drain()
                    writer.transport.abort()
                answer = await client.stub.ModelInfer(message(), timeout=WAIT_S)
                assert repr(client.transport._fronts[0]).endswith(": 0 calls>")
                return answer

    assert run(main).outputs


def test_call_that_is_cut_off_before_its_message_is_whole_is_never_taken():
    """An honest client is killed in the middle of a large request."""
    large = message({"x": np.ones((5_000_000, 2), np.float32)})

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                for _ in range(5):
                    async with grpc.aio.insecure_channel(client.address, options=CLIENT_OPTIONS) as channel:
                        other = Connected(client.transport, None, channel)
                        call = other.stub.ModelInfer(large, timeout=WAIT_S)
                        await asyncio.sleep(0.005)
                        call.cancel()
                await client.stub.ModelInfer(message(), timeout=WAIT_S)
                await eventually(lambda: not client.transport._fronts[0].holds_calls)

    run(main)
