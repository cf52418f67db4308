"""grpc.health.v1 for probes and load balancers: Check and Watch of the server and of every model."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import grpc
from grpc_health.v1 import health_pb2

from service.errors import InternalError, NotFoundError, SignetError, UnavailableError
from service.transports.call import Context, abort, parse
from service.transports.lasting import LastingCalls

HEALTH_SERVICE_NAME: Final = "grpc.health.v1.Health"

_READY_SERVICES: Final = ("", "inference.GRPCInferenceService", "readiness")
_LIVE_SERVICE: Final = "liveness"

_Status = health_pb2.HealthCheckResponse


class Health:
    """What the server says of itself. All methods belong to one event loop.

    An unknown name is NOT_FOUND to Check, while Watch tells SERVICE_UNKNOWN and goes on; so the protocol wants it.
    """

    def __init__(self) -> None:
        self._statuses: dict[str, int] = {}
        self._followers: list[Callable[[str, Any], None]] = []
        self._changed = asyncio.Event()

    def follow(self, tell: Callable[[str, Any], None]) -> None:
        """Tell somebody the status of every service, now and whenever it is set."""
        self._followers.append(tell)
        for service, status in self._statuses.items():
            tell(service, status)

    def set_live(self, *, live: bool) -> None:
        """Say whether the process and its workers are alive."""
        self._set({_LIVE_SERVICE: live})

    def set_ready(self, *, ready: bool) -> None:
        """Say whether the server is ready for requests."""
        self._set(dict.fromkeys(_READY_SERVICES, ready))

    def set_model_ready(self, model: str, *, ready: bool) -> None:
        """Say whether a model is ready for requests; one that is called like a probe of the server has none."""
        if model != _LIVE_SERVICE and model not in _READY_SERVICES:
            self._set({model: ready})

    def _set(self, serving: dict[str, bool]) -> None:
        for service, is_serving in serving.items():
            status = _Status.SERVING if is_serving else _Status.NOT_SERVING
            self._statuses[service] = status
            for tell in self._followers:
                tell(service, status)
        # Everyone who waits looks again; whoever comes later waits for the next change.
        self._changed.set()
        self._changed = asyncio.Event()

    def handler(self, lasting: LastingCalls) -> grpc.GenericRpcHandler:
        """Return what serves the health service; watches end with the lasting calls."""

        async def watch(data: bytes, context: Context) -> None:
            try:
                service = parse(health_pb2.HealthCheckRequest, data).service
            except InternalError as error:
                await abort(context, error)
            else:
                await self._watch(service, context, lasting)

        methods = {
            "Check": grpc.unary_unary_rpc_method_handler(self._check),
            "Watch": grpc.unary_stream_rpc_method_handler(watch, response_serializer=_Status.SerializeToString),
        }
        return grpc.method_handlers_generic_handler(HEALTH_SERVICE_NAME, methods)

    def check(self, request: health_pb2.HealthCheckRequest) -> health_pb2.HealthCheckResponse:
        """Answer a Check.

        Raises:
            NotFoundError: there is no service of this name.
        """
        status = self._statuses.get(request.service)
        if status is None:
            raise NotFoundError(f"unknown service '{request.service}'")
        return health_pb2.HealthCheckResponse(status=status)

    async def _check(self, data: bytes, context: Context) -> bytes:
        try:
            answer = self.check(parse(health_pb2.HealthCheckRequest, data))
        except SignetError as error:
            return await abort(context, error)
        return bytes(answer.SerializeToString())

    async def _watch(self, service: str, context: Context, lasting: LastingCalls) -> None:
        """Tell the status now and after every change; changes that follow quickly may be told as one."""
        told, stopping = None, None
        while True:
            changed = self._changed
            status = self._statuses.get(service, _Status.SERVICE_UNKNOWN)
            if status != told:
                await context.write(_Status(status=status))
                told = status
            elif stopping is not None:
                await abort(context, stopping)
                return
            else:
                try:
                    with lasting.until_stop():
                        await changed.wait()
                except UnavailableError as error:
                    # Before the end, the watcher hears of a change that came with it.
                    stopping = error
