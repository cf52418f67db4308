import asyncio

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.service.serving import WAIT_S, Gate, kit, message, serving
from tests.service.transports.channels import connected, failure, run

pytestmark = pytest.mark.usefixtures("each_transport")

SERVING, NOT_SERVING, SERVICE_UNKNOWN = (
    health_pb2.HealthCheckResponse.SERVING,
    health_pb2.HealthCheckResponse.NOT_SERVING,
    health_pb2.HealthCheckResponse.SERVICE_UNKNOWN,
)


class Probe:
    """A client of the health service."""

    def __init__(self, client):
        self._stub = health_pb2_grpc.HealthStub(client.channel)

    def check(self, service=""):
        return self._stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)

    def watch(self, service=""):
        return self._stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S)


def probe(main):
    """Run ``main(client, probe)`` against a server that is live and ready."""

    async def whole():
        with serving(kit()) as served:
            async with connected(served) as client:
                client.health.set_live(live=True)
                client.health.set_ready(ready=True)
                return await main(client, Probe(client))

    return run(whole)


def test_check_tells_readiness_liveness_and_models():
    async def main(client, probe):
        client.health.set_ready(ready=False)
        client.health.set_model_ready("clip", ready=True)
        names = ("", "inference.GRPCInferenceService", "readiness", "liveness", "clip")
        return [(await probe.check(name)).status for name in names]

    assert probe(main) == [NOT_SERVING, NOT_SERVING, NOT_SERVING, SERVING, SERVING]


@pytest.mark.parametrize("name", ["inference.GRPCInferenceService", "readiness", "liveness"])
def test_a_model_that_is_called_like_a_probe_of_the_server_does_not_speak_for_it(name):
    async def main(client, probe):
        client.health.set_model_ready(name, ready=False)
        return (await probe.check(name)).status

    assert probe(main) == SERVING


def test_check_of_an_unknown_name_is_not_found():
    async def main(client, probe):
        return await failure(probe.check("nope"))

    assert probe(main) == (grpc.StatusCode.NOT_FOUND, "unknown service 'nope'")


def test_watch_tells_now_and_every_change():
    async def main(client, probe):
        call, seen = probe.watch(), []
        for ready in (False, True, False):
            seen.append((await call.read()).status)
            client.health.set_ready(ready=ready)
        seen.append((await call.read()).status)
        return seen

    assert probe(main) == [SERVING, NOT_SERVING, SERVING, NOT_SERVING]


def test_watch_of_an_unknown_name_waits_until_it_is_known():
    async def main(client, probe):
        call = probe.watch("clip")
        first = (await call.read()).status
        client.health.set_model_ready("clip", ready=True)
        return first, (await call.read()).status

    assert probe(main) == (SERVICE_UNKNOWN, SERVING)


def test_watcher_that_leaves_does_not_silence_the_others():
    async def main(client, probe):
        leaving, staying = probe.watch(), probe.watch()
        await leaving.read()
        await staying.read()
        leaving.cancel()
        await leaving.code()
        # An answer to a later call: the server has heard that the watcher left.
        await probe.check()
        client.health.set_ready(ready=False)
        return (await staying.read()).status

    assert probe(main) == NOT_SERVING


def test_watch_is_told_nothing_when_nothing_changed():
    async def main(client, probe):
        call = probe.watch()
        await call.read()
        client.health.set_model_ready("clip", ready=True)
        client.health.set_ready(ready=True)
        await probe.check()
        client.health.set_ready(ready=False)
        return (await call.read()).status

    assert probe(main) == NOT_SERVING


def test_stopping_server_tells_watchers_that_it_is_not_ready_and_ends_them():
    async def main(client, probe):
        call = probe.watch()
        await call.read()
        client.health.set_ready(ready=False)
        await client.transport.stop(WAIT_S)
        last = await call.read()
        with pytest.raises(grpc.aio.AioRpcError):
            await call.read()
        return last.status, await call.code()

    assert probe(main) == (NOT_SERVING, grpc.StatusCode.UNAVAILABLE)


def test_watches_do_not_keep_a_stopping_server_waiting():
    async def main(client, probe):
        calls = [probe.watch() for _ in range(20)]
        for call in calls:
            await call.read()
        # Without grace for lasting calls, this would take all of it.
        await asyncio.wait_for(client.transport.stop(2 * WAIT_S), WAIT_S / 2)

    probe(main)


def test_checks_are_answered_while_models_are_busy():
    gate = Gate()

    async def main():
        with serving(kit(serving_default=gate)) as served:
            async with connected(served) as client:
                client.health.set_ready(ready=True)
                calls = [client.stub.ModelInfer(message(), timeout=WAIT_S) for _ in range(200)]
                await asyncio.to_thread(gate.wait_until_entered)
                status = (await asyncio.wait_for(Probe(client).check(), 5)).status
                gate.opened.set()
                await asyncio.gather(*calls)
                return status

    assert run(main) == SERVING


@pytest.mark.parametrize("method", ["Check", "Watch"])
def test_bytes_that_are_no_request_are_internal_and_no_defect(method, caplog):
    async def main(client, _probe):
        make = client.channel.unary_unary if method == "Check" else client.channel.unary_stream
        call = make(f"/grpc.health.v1.Health/{method}")(b"\xff\xff", timeout=WAIT_S)
        return await call.code(), await call.details()

    assert probe(main) == (grpc.StatusCode.INTERNAL, "Unable to parse request")
    assert not caplog.records
