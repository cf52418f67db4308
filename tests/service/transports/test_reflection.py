"""What generic tools do: list the services, fetch their messages, call without stubs of ours."""

import asyncio
import gc
import tracemalloc
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from service.transports.lasting import LastingCalls
from service.transports.reflection import reflection_handler
from tests.service.serving import WAIT_S, kit, serving
from tests.service.transports.channels import connected, eventually, failure, run

pytestmark = pytest.mark.usefixtures("each_transport")

INFERENCE = "inference.GRPCInferenceService"
METHOD = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


def with_channel(work):
    """Run ``work(channel)`` with a blocking channel, in a thread beside the server's event loop."""

    def in_thread(address):
        with grpc.insecure_channel(address) as channel:
            return work(channel)

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                return await asyncio.to_thread(in_thread, client.address)

    return run(main)


def test_services_are_listed():
    services = with_channel(lambda channel: set(ProtoReflectionDescriptorDatabase(channel).get_services()))

    assert services == {INFERENCE, "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}


def test_every_listed_service_can_be_described():
    def work(channel):
        database = ProtoReflectionDescriptorDatabase(channel)
        pool = DescriptorPool(database)
        return {name: len(pool.FindServiceByName(name).methods) for name in database.get_services()}

    methods = with_channel(work)
    assert methods["grpc.health.v1.Health"] >= 2
    assert methods["grpc.reflection.v1alpha.ServerReflection"] == 1
    assert methods[INFERENCE] >= 19


def test_model_is_called_without_stubs():
    def work(channel):
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        method = pool.FindServiceByName(INFERENCE).methods_by_name["ModelInfer"]
        request = GetMessageClass(method.input_type)(model_name="clip", id="dynamic")
        tensor = request.inputs.add(name="x", datatype="FP32", shape=[1, 2])
        tensor.contents.fp32_contents.extend([3, 4])
        call = channel.unary_unary(
            f"/{INFERENCE}/{method.name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        return call(request, timeout=WAIT_S)

    response = with_channel(work)
    assert response.id == "dynamic"
    assert np.frombuffer(response.raw_output_contents[0], np.float32).tolist() == [6.0, 8.0]


def test_fields_of_ours_are_described():
    def work(channel):
        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        return pool.FindMessageTypeByName("inference.ModelConfig").fields_by_name["signatures"].number

    assert with_channel(work) == 10001


@pytest.mark.parametrize(
    "request_",
    [
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Service"),
        reflection_pb2.ServerReflectionRequest(file_by_filename="no/such.proto"),
    ],
)
def test_unknown_names_are_not_found_and_the_stream_goes_on(request_):
    def work(channel):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        known = reflection_pb2.ServerReflectionRequest(file_containing_symbol=INFERENCE)
        return list(stub.ServerReflectionInfo(iter([request_, known]), timeout=WAIT_S))

    unknown, known = with_channel(work)
    assert unknown.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    assert known.file_descriptor_response.file_descriptor_proto


def test_open_reflection_does_not_keep_a_stopping_server_waiting():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                call = reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo()
                await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
                await call.read()
                await asyncio.wait_for(client.transport.stop(2 * WAIT_S), WAIT_S / 2)
                return await call.code()

    assert run(main) is grpc.StatusCode.UNAVAILABLE


def test_bytes_that_are_no_request_are_internal_and_no_defect(caplog):
    def work(channel):
        method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        call = channel.stream_stream(method)(iter([b"\xff\xff"]), timeout=WAIT_S)
        return call.code(), call.details()

    assert with_channel(work) == (grpc.StatusCode.INTERNAL, "Unable to parse request")
    assert not caplog.records


def test_messages_that_cannot_be_parsed_are_let_go_without_the_garbage_collector():
    garbage = bytes(1_000_000)

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                method = client.channel.stream_stream(METHOD)
                for _ in range(10):
                    assert (await failure(method(iter([garbage])).read()))[0] is grpc.StatusCode.INTERNAL
                await eventually(lambda: tracemalloc.get_traced_memory()[0] < 5 * len(garbage))

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        run(main)
    finally:
        tracemalloc.stop()
        gc.enable()


class SlowContext:
    """Of a call whose client is slow to read; tells how it ended."""

    def __init__(self):
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        self.requests = [reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()]
        self.written, self.ended = [], None

    async def read(self):
        if not self.requests:
            await asyncio.Event().wait()
        return self.requests.pop()

    async def write(self, response):
        self.begun.set()
        await self.may_end.wait()
        self.written.append(response)

    async def abort(self, code, _text):
        self.ended = (code, len(self.written))


def test_stop_does_not_cut_off_an_answer_that_is_being_written():
    """grpc cannot end a call while it writes, so that the server would wait for it until the grace is over."""

    async def main():
        lasting, context = LastingCalls(), SlowContext()
        methods = reflection_handler(lasting)
        details = SimpleNamespace(method="/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        call = asyncio.create_task(methods.service(details).stream_stream(None, context))
        await context.begun.wait()
        lasting.stop()
        context.may_end.set()
        await call
        return context.ended

    assert run(main) == (grpc.StatusCode.UNAVAILABLE, 1)
