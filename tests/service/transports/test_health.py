"""Standard probes ask a real server over a real channel."""

import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.transports.health import Health

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
READY_SERVICES = ("", "inference.GRPCInferenceService", "readiness")


def run(main):
    """Run ``main(health, stub)`` beside a server that offers the health service."""

    async def serve():
        health, server = Health(), grpc.aio.server()
        health.add_to(server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            await main(health, health_pb2_grpc.HealthStub(channel))
        await server.stop(None)

    asyncio.run(asyncio.wait_for(serve(), 30))


async def check(stub, service):
    return (await stub.Check(health_pb2.HealthCheckRequest(service=service))).status


async def is_unknown(stub, service):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await check(stub, service)
    return caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_readiness_is_told_under_each_of_its_names():
    async def main(health, stub):
        for ready in (False, True, False):
            await health.set_ready(ready=ready)
            for service in READY_SERVICES:
                assert await check(stub, service) == (SERVING if ready else NOT_SERVING)

    run(main)


def test_liveness_does_not_follow_readiness():
    async def main(health, stub):
        await health.set_live()
        await health.set_ready(ready=False)

        assert await check(stub, "liveness") == SERVING

    run(main)


def test_each_model_has_a_status_of_its_own():
    async def main(health, stub):
        await health.set_model_ready("clip", ready=True)
        await health.set_model_ready("bert", ready=False)

        assert await check(stub, "clip") == SERVING
        assert await check(stub, "bert") == NOT_SERVING

    run(main)


def test_unknown_names_are_not_found():
    async def main(health, stub):
        await health.set_ready(ready=True)
        await health.set_model_ready("clip", ready=True)

        for service in ("nope", "clip:embed", "liveness"):
            assert await is_unknown(stub, service)

    run(main)


def test_watch_tells_every_change_from_unknown_on():
    async def main(health, stub):
        watch = stub.Watch(health_pb2.HealthCheckRequest(service="clip"))
        seen = [(await watch.read()).status]
        for ready in (False, True, False):
            await health.set_model_ready("clip", ready=ready)
            seen.append((await watch.read()).status)
        watch.cancel()

        assert seen == [UNKNOWN, NOT_SERVING, SERVING, NOT_SERVING]

    run(main)
