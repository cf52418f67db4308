"""grpc.health.v1 for probes and load balancers: Check and Watch of the server and of every model."""

from typing import Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as grpc_health

_READY_SERVICES: Final = ("", "inference.GRPCInferenceService", "readiness")
_LIVE_SERVICE: Final = "liveness"


class Health:
    """What the server says of itself; unknown names are NOT_FOUND."""

    def __init__(self) -> None:
        self._servicer = grpc_health.HealthServicer()

    def add_to(self, server: grpc.aio.Server) -> None:
        """Offer the health service on a server."""
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    async def set_live(self) -> None:
        """Say that the process works; it stays so until it ends."""
        await self._set(_LIVE_SERVICE, serving=True)

    async def set_ready(self, *, ready: bool) -> None:
        """Say whether the server is ready for requests."""
        for service in _READY_SERVICES:
            await self._set(service, serving=ready)

    async def set_model_ready(self, model: str, *, ready: bool) -> None:
        """Say whether a model is ready for requests."""
        await self._set(model, serving=ready)

    async def _set(self, service: str, *, serving: bool) -> None:
        status = health_pb2.HealthCheckResponse
        await self._servicer.set(service, status.SERVING if serving else status.NOT_SERVING)
