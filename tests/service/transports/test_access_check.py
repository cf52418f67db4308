"""Refused calls end before anything of them is read, whatever their kind; the others pass as if nothing had asked."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from protos import grpc_service_pb2 as pb
from protos import grpc_service_pb2_grpc
from service import logs
from service.access import make_access
from service.logs import LogOptions
from service.transports.health import Health
from tests.service.serving import WAIT_S, kit, message, serving
from tests.service.transports import raw_http2
from tests.service.transports.channels import bind, failure, run

pytestmark = pytest.mark.usefixtures("each_transport")

STATUS = grpc.StatusCode
INFER = "/inference.GRPCInferenceService/ModelInfer"
USER, ADMIN = (("authorization", "Bearer user"),), (("authorization", "Bearer admin"),)


@pytest.fixture
def guarded(tmp_path):
    """Run ``main(channel, stub)`` beside a transport that wants tokens."""
    (tmp_path / "tokens").write_text("user\n")
    (tmp_path / "admins").write_text("admin\n")
    access = make_access(tmp_path / "tokens", tmp_path / "admins", [])

    def run_guarded(main):
        async def serve():
            with serving(kit()) as served:
                run_guarded.answered = lambda: served.statistics("clip").success.count
                health = Health()
                health.set_live(live=True)
                transport = bind(served.servicer, health, access=access)
                run_guarded.address = lambda: transport.addresses[0]
                await transport.start()
                try:
                    async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
                        await main(channel, grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel))
                finally:
                    await transport.stop(0)

        run(serve)

    return run_guarded


async def first(stream):
    async for answer in stream:
        return answer
    raise AssertionError("the stream ended without an answer")


def test_calls_of_every_kind_are_refused_without_a_token(guarded):
    async def main(channel, stub):
        reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        calls = [
            stub.ModelInfer(pb.ModelInferRequest(model_name="clip"), timeout=WAIT_S),
            stub.ModelMetadata(pb.ModelMetadataRequest(name="clip"), timeout=WAIT_S),
            stub.RepositoryIndex(pb.RepositoryIndexRequest(), timeout=WAIT_S),
            first(stub.ModelStreamInfer(iter([pb.ModelInferRequest(model_name="clip")]), timeout=WAIT_S)),
            first(reflection.ServerReflectionInfo(iter([asked]), timeout=WAIT_S)),
            channel.unary_unary("/no.Such/Method")(b"", timeout=WAIT_S),
        ]
        for call in calls:
            code, text = await failure(call)
            assert code is STATUS.UNAUTHENTICATED
            assert "needs a bearer token in the metadata 'authorization'" in text

    guarded(main)


def test_stream_whose_client_sends_nothing_is_refused_too(guarded):
    async def main(_channel, stub):
        stream = stub.ModelStreamInfer(timeout=WAIT_S)

        assert await stream.code() is STATUS.UNAUTHENTICATED

    guarded(main)


def test_calls_with_their_token_are_answered(guarded):
    async def main(channel, stub):
        request = pb.ModelMetadataRequest(name="clip")
        for metadata in (USER, ADMIN):
            assert (await stub.ModelMetadata(request, metadata=metadata, timeout=WAIT_S)).name == "clip"
        wrong = pb.ModelInferRequest(model_name="clip")
        stream = stub.ModelStreamInfer(iter([wrong]), metadata=USER, timeout=WAIT_S)
        assert (await first(stream)).error_message
        assert await failure(channel.unary_unary("/no.Such/Method")(b"", metadata=USER, timeout=WAIT_S)) == (
            STATUS.UNIMPLEMENTED,
            "Method not found!",
        )

    guarded(main)


def test_administrative_calls_want_an_administrator(guarded):
    async def main(_channel, stub):
        calls = {
            stub.SystemSharedMemoryStatus: pb.SystemSharedMemoryStatusRequest(),
            stub.SystemSharedMemoryRegister: pb.SystemSharedMemoryRegisterRequest(name="x", key="x", byte_size=1),
            stub.TraceSetting: pb.TraceSettingRequest(),
            stub.LogSettings: pb.LogSettingsRequest(),
        }
        for method, request in calls.items():
            assert (await failure(method(request, metadata=USER, timeout=WAIT_S)))[0] is STATUS.PERMISSION_DENIED
        # Here nothing answers the call that is let through.
        let_in = stub.LogSettings(pb.LogSettingsRequest(), metadata=ADMIN, timeout=WAIT_S)
        assert (await failure(let_in))[0] is STATUS.UNIMPLEMENTED

    guarded(main)


@pytest.mark.parametrize("value", [b"Bearer user\xff", b"\xffBearer user", b"Bearer \xc3\xa4\xff"])
def test_metadata_that_are_no_text_are_no_token_and_not_logged(guarded, capsys, value):
    logs.configure(LogOptions(verbose_level=1))

    async def main(channel, stub):
        request = message().SerializeToString()
        await raw_http2.call(guarded.address(), INFER, request, [(b"authorization", value)])
        assert guarded.answered() == 0
        await raw_http2.call(guarded.address(), INFER, request, [(b"authorization", b"Bearer user"), (b"x", value)])
        assert guarded.answered() == 1

    guarded(main)
    assert "Bearer" not in capsys.readouterr().err


def test_probes_need_no_token(guarded):
    async def main(channel, stub):
        health = health_pb2_grpc.HealthStub(channel)
        asked = health_pb2.HealthCheckRequest(service="liveness")
        assert (await health.Check(asked, timeout=WAIT_S)).status == health_pb2.HealthCheckResponse.SERVING
        assert (await first(health.Watch(asked, timeout=WAIT_S))).status == health_pb2.HealthCheckResponse.SERVING
        assert (await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live

    guarded(main)
