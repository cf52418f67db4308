"""What a client may take of the server: connections, streams, bytes of a message, bytes of metadata."""

import asyncio
import time

import grpc
import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from protos import grpc_service_pb2_grpc
from service.admission import Limit
from tests.service.serving import WAIT_S, Busy, kit, message, rows, serving
from tests.service.transports.channels import CLIENT_OPTIONS, bind, connected, eventually, failure, run

on_each_transport = pytest.mark.usefixtures("each_transport")

LIVE = pb.ServerLiveRequest()
REFUSAL_S = 0.1


def test_message_above_the_limit_is_refused_by_name_and_one_below_is_served(each_transport):
    """The native transport looks itself, so it can count; what grpcio refuses, it does not tell of."""

    async def main():
        with serving(kit()) as served:
            async with connected(served, grpc_max_receive_message_length=10_000) as client:
                large = message({"x": np.zeros((2000, 2), np.float32)})
                code, text = await failure(client.stub.ModelInfer(large, timeout=WAIT_S))
                assert (await client.stub.ModelInfer(message(), timeout=WAIT_S)).model_name == "clip"
                refused = served.data_plane.admission.counts().refused[Limit.MESSAGE]
                return code, text, refused

    code, text, refused = run(main)
    assert refused == (each_transport == "native")
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in text
    assert "10000" in text


@on_each_transport
def test_second_server_on_the_port_fails_loudly_and_the_first_goes_on():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                with pytest.raises(OSError, match=f"cannot listen on {client.address}"):
                    bind(served.servicer, addresses=[client.address])
                return (await client.stub.ServerLive(LIVE, timeout=WAIT_S)).live

    assert run(main)


@on_each_transport
def test_message_has_no_limit_by_default():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                large = message({"x": np.zeros((1_000_000, 2), np.float32)})
                return (await client.stub.ModelInfer(large, timeout=WAIT_S)).outputs[0].shape

    assert run(main) == [1_000_000, 2]


def test_metadata_above_the_limit_of_grpc_is_refused_and_the_client_goes_on(each_transport):
    """The native server ends the connection, which the client makes anew by itself."""

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                call = client.stub.ServerLive(LIVE, timeout=WAIT_S, metadata=[("x-large", "y" * 100_000)])
                code, _ = await failure(call)
                return code, (await client.stub.ServerLive(LIVE, timeout=WAIT_S)).live

    code = {"grpcio": grpc.StatusCode.RESOURCE_EXHAUSTED, "native": grpc.StatusCode.UNAVAILABLE}[each_transport]
    assert run(main) == (code, True)


def test_connection_above_the_limit_is_closed_and_one_that_ends_makes_room():
    async def main():
        with serving(kit()) as served:
            async with connected(served, grpc_max_connections=1) as client:
                await client.stub.ServerLive(LIVE, timeout=WAIT_S)
                async with grpc.aio.insecure_channel(client.address, options=CLIENT_OPTIONS) as second:
                    stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(second)
                    code, _ = await failure(stub.ServerLive(LIVE, timeout=WAIT_S))
                    await client.channel.close()
                    return code, (await stub.ServerLive(LIVE, timeout=WAIT_S, wait_for_ready=True)).live

    assert run(main) == (grpc.StatusCode.UNAVAILABLE, True)


@on_each_transport
def test_stream_above_the_limit_is_unavailable_and_one_that_ends_makes_room():
    async def main():
        with serving(kit(), limits={Limit.STREAMS: 1}) as served:
            admission = served.data_plane.admission
            async with connected(served) as client:
                first = client.stream()
                await first.write(message())
                await first.read()
                refusal = await failure(client.talk([message()]))
                await first.done_writing()
                await eventually(lambda: admission.counts().held[Limit.STREAMS] == 0)
                answers = await client.talk([message()])
                assert admission.counts().refused[Limit.STREAMS] == 1
                return refusal, len(answers)

    (code, text), answered = run(main)
    assert code is grpc.StatusCode.UNAVAILABLE
    assert text == "the server is busy: its limit is 1 open streams (max_streams)"
    assert answered == 1


@on_each_transport
def test_overload_is_refused_at_once_what_was_taken_is_answered_and_then_all_is_as_before():
    """2,000 callers in small: see tests/end_to_end/faults/test_overload.py for the whole."""
    taken, beyond = 50, 150

    async def main(busy):
        async with connected(busy.served) as client:
            waiting = [asyncio.ensure_future(infer(client, number)) for number in range(taken)]
            admission = busy.served.data_plane.admission
            await eventually(lambda: admission.counts().held[Limit.REQUESTS] == taken + 1)
            spans = []
            for number in range(beyond):
                began = time.monotonic()
                code, text = await failure(infer(client, number))
                spans.append(time.monotonic() - began)
                assert code is grpc.StatusCode.UNAVAILABLE
                assert "max_requests_in_flight" in text
            busy.gate.opened.set()
            answers = await asyncio.gather(*waiting)
            after = await infer(client, 7)
            assert admission.counts().refused[Limit.REQUESTS] == beyond
            return spans, answers, after

    def infer(client, number):
        return client.stub.ModelInfer(message({"x": rows(number)}), timeout=WAIT_S)

    with Busy(limits={Limit.REQUESTS: taken + 1}) as busy:
        spans, answers, after = run(lambda: main(busy))
    assert sorted(spans)[beyond * 9 // 10] < REFUSAL_S
    values = [np.frombuffer(answer.raw_output_contents[0], np.float32)[0] for answer in (*answers, after)]
    assert values == [2 * number for number in (*range(taken), 7)]
