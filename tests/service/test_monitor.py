"""Probes hear the same over gRPC and HTTP, on every port, whatever the server is doing."""

import asyncio
import logging
import re
import time
import urllib.error
import urllib.request
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from service.monitor import Monitor
from service.settings import Settings
from service.transports.health import Health
from tests.service.serving import Busy, kit, message, serving

WAIT_S = 30
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


class Probes:
    """A monitor over some models, and the addresses that its log names."""

    def __init__(self, served, caplog, **options):
        self.ready = True
        self.health = Health()
        settings = Settings(**{"metrics_port": 0, "health_port": 0, "health_address": "127.0.0.1", **options})
        self.monitor = Monitor(
            settings, served.repository, self.health, data_plane=served.data_plane, is_ready=lambda: self.ready
        )
        self._caplog = caplog

    def addresses(self):
        return re.findall(r"listening for (?:HTTP|probes) at (\S+)", self._caplog.text)

    async def fetch(self, address, path):
        return await asyncio.to_thread(_fetch, f"http://{address}/{path}")

    async def check(self, service):
        async with grpc.aio.insecure_channel(self.addresses()[-1]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest(service=service)
            return (await stub.Check(request, timeout=WAIT_S, wait_for_ready=True)).status

    async def watch(self, service, *statuses):
        """Return once the service had these statuses, in this order."""
        async with grpc.aio.insecure_channel(self.addresses()[-1]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            watch = stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=WAIT_S, wait_for_ready=True)
            for status in statuses:
                while (await watch.read()).status != status:
                    pass


def _fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:  # noqa: S310 - made above
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@asynccontextmanager
async def probes(served, caplog, **options):
    caplog.set_level(logging.INFO, "service")
    made = Probes(served, caplog, **options)
    with made.monitor.running():
        yield made


def test_both_ports_say_the_same(caplog):
    async def main():
        async with probes(served, caplog) as probe:
            probe.health.set_ready(ready=True)
            probe.health.set_model_ready("clip", ready=True)
            for address in probe.addresses():
                assert (await probe.fetch(address, "v2/health/live"))[0] == 200
                assert (await probe.fetch(address, "v2/health/ready"))[0] == 200
                assert (await probe.fetch(address, "v2/models/clip/ready"))[0] == 200
                assert "nv_inference_count" in (await probe.fetch(address, "metrics"))[1]
            for service in ("", "readiness", "liveness", "inference.GRPCInferenceService", "clip"):
                assert await probe.check(service) == SERVING
            probe.ready = False
            probe.health.set_ready(ready=False)
            for address in probe.addresses():
                assert (await probe.fetch(address, "v2/health/live"))[0] == 200
                assert (await probe.fetch(address, "v2/health/ready"))[0] == 503
            assert await probe.check("readiness") == NOT_SERVING
            assert await probe.check("liveness") == SERVING
            assert len(probe.addresses()) == 2

    with serving(kit()) as served:
        asyncio.run(main())


def test_without_metrics_the_port_for_probes_still_tells_health(caplog):
    async def main():
        async with probes(served, caplog, allow_metrics=False) as probe:
            (address,) = probe.addresses()
            assert (await probe.fetch(address, "v2/health/live"))[0] == 200
            assert (await probe.fetch(address, "metrics"))[0] == 404

    with serving(kit()) as served:
        asyncio.run(main())


def test_port_for_probes_is_closed_unless_it_is_asked_for(caplog):
    async def main():
        async with probes(served, caplog, health_address=None) as probe:
            assert len(probe.addresses()) == 1

    with serving(kit()) as served:
        asyncio.run(main())


def test_server_is_not_live_while_a_run_hangs(caplog):
    async def main():
        async with probes(busy.served, caplog, stuck_run_timeout=0.05) as probe:
            await probe.watch("liveness", NOT_SERVING)
            assert not probe.monitor.is_live()
            assert (await probe.fetch(probe.addresses()[0], "v2/health/live"))[0] == 503
            busy.gate.opened.set()
            await probe.watch("liveness", SERVING)
            assert probe.monitor.is_live()

    with Busy() as busy:
        asyncio.run(main())
    assert "its runs take longer than 0.05 s" in caplog.text


def test_server_is_not_live_while_the_event_loop_hangs(caplog):
    async def main():
        async with probes(served, caplog, stuck_run_timeout=0.1) as probe:
            (address, _) = probe.addresses()
            deadline = time.monotonic() + WAIT_S
            while _fetch(f"http://{address}/v2/health/live")[0] == 200:  # this blocks the loop, but not the port
                assert time.monotonic() < deadline
            assert "the thread that takes calls does nothing" in caplog.text
            await probe.watch("liveness", SERVING)

    with serving(kit()) as served:
        served.send(message())
        asyncio.run(main())


def test_second_server_on_the_port_fails_loudly(caplog):
    async def main():
        async with probes(served, caplog) as probe:
            port = int(probe.addresses()[0].rpartition(":")[2])
            with pytest.raises(OSError, match=f"cannot listen for HTTP on 127.0.0.1, port {port}"):
                async with probes(served, caplog, metrics_port=port):
                    pass

    with serving(kit()) as served:
        asyncio.run(main())
