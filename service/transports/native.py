"""The fast transport: HTTP/2 outside the interpreter, one thread per address that takes calls in bursts.

What the native server cannot serve (streams, health watches, reflection) is passed on to the grpcio transport behind
it, on a Unix socket that only this user can reach. docs/native-transport.md tells what was checked of it.
"""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from grpc_health.v1 import health_pb2

from service.access import ANYBODY, Access
from service.caller import LOCAL, UNKNOWN, is_local_address
from service.servicer import Servicer
from service.settings import Settings
from service.threads import default_threads
from service.transports.channel_options import channel_options
from service.transports.grpcio import SERVICE_NAME, GrpcioTransport
from service.transports.health import HEALTH_SERVICE_NAME, Health
from service.transports.native_front import Front, Method
from service.transports.relay import Relay

_NOTICE_S: Final = 0.2
"""How long new calls are refused by name before the connections are closed, and how long the last bytes may take."""

_LOOK_S: Final = 0.005

_MOST_IO_THREADS: Final = 4
"""More than the one interpreter behind them can answer for."""

_CHECK: Final = f"/{HEALTH_SERVICE_NAME}/Check"
_PROBES: Final = frozenset(
    {_CHECK, *(f"/{SERVICE_NAME}/{name}" for name in ("ServerLive", "ServerReady", "ModelReady"))}
)


class NativeTransport:
    """Serves the protocol, grpc.health.v1 and reflection on the given addresses. Belongs to the running event loop."""

    name: Final = "native"

    def __init__(
        self,
        servicer: Servicer,
        health: Health,
        addresses: Sequence[str],
        settings: Settings,
        access: Access = ANYBODY,
    ) -> None:
        """Bind the addresses.

        Args:
            servicer: answers the calls.
            health: answers grpc.health.v1.
            addresses: gRPC addresses, such as ``127.0.0.1:8001`` or ``unix:/run/signet.sock``; port 0 means any.
            settings: of these the options of connections.
            access: who may call what.

        Raises:
            OSError: an address cannot be bound, or there is no place for the socket; the text names it.
        """
        methods: dict[str, Method] = {
            f"/{SERVICE_NAME}/{name}": method for name, method in servicer.unary_methods().items()
        }
        methods[_CHECK] = (health_pb2.HealthCheckRequest, lambda asked, _: health.check(asked))
        self._fronts: list[Front] = []
        self._directory = Path(tempfile.mkdtemp(prefix="signet-"))
        try:
            for address in addresses:
                front = Front(
                    address,
                    servicer,
                    methods,
                    infer=f"/{SERVICE_NAME}/ModelInfer",
                    probes=_PROBES,
                    access=access,
                    max_bytes=settings.grpc_max_receive_message_length,
                    socket_mode=int(settings.grpc_unix_socket_mode, 8),
                    options=_front_options(settings),
                )
                self._fronts.append(front)
            # Seen through this socket all callers look alike.
            caller = LOCAL if all(map(is_local_address, addresses)) else UNKNOWN
            socket = f"unix:{self._directory / 'grpcio.sock'}"
            self._behind = GrpcioTransport(
                servicer,
                health,
                [socket],
                channel_options(settings),
                socket_mode=0o600,
                callers=lambda _: caller,
                access=access,
            )
        except BaseException:
            self._close()
            raise
        self.addresses = [front.address for front in self._fronts]

    async def start(self) -> None:
        """Start to take calls."""
        await self._behind.start()
        for front in self._fronts:
            front.start(str(self._directory / "grpcio.sock"))

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls; return when those taken are answered, or after ``grace_s`` seconds.

        Refused calls are UNAVAILABLE; probes are answered meanwhile. There is no GOAWAY: when all answers are sent, the
        connections are closed. Streams end when the requests that they took are answered.
        """
        ends_at = asyncio.get_running_loop().time() + grace_s
        for front in self._fronts:
            await asyncio.to_thread(front.refuse)
        await asyncio.gather(self._behind.stop(grace_s), self._answer_all(ends_at))
        for front in self._fronts:
            await asyncio.to_thread(front.ignore)
        await self._send_all(ends_at)
        await asyncio.to_thread(self._close)

    def problems(self, timeout_s: float) -> list[str]:
        """Return what is wrong with the threads that receive calls, as ``Transport`` says."""
        for front in self._fronts:  # this is called every few seconds, which may be all that is
            front.let_go()
        return [
            f"{front.address}: {problem}" for front in self._fronts if (problem := _problem(front.relay, timeout_s))
        ]

    def abandon(self) -> None:
        """Tell all who wait for an inference that they wait in vain, so that a ``stop`` under way returns."""
        self._behind.abandon()
        for front in self._fronts:
            front.abandon()

    async def _answer_all(self, ends_at: float) -> None:
        await _until(lambda: not any(front.holds_calls for front in self._fronts), ends_at)

    async def _send_all(self, ends_at: float) -> None:
        await _until(lambda: all(front.has_sent_all for front in self._fronts), ends_at)
        # What has left the native server may still lie in the buffers of its connections.
        await asyncio.sleep(max(0.0, min(_NOTICE_S, ends_at - asyncio.get_running_loop().time())))

    def _close(self) -> None:
        for front in self._fronts:
            front.close()
        shutil.rmtree(self._directory, ignore_errors=True)


async def _until(holds: Callable[[], bool], ends_at: float) -> None:
    """Return when something holds that no event tells of, or at a time of the event loop."""
    loop = asyncio.get_running_loop()
    while not holds() and loop.time() < ends_at:  # noqa: ASYNC110 - see above
        await asyncio.sleep(_LOOK_S)


def _problem(relay: Relay[Any], timeout_s: float) -> str | None:
    if not relay.is_alive:
        return "a thread that receives calls has died"
    busy_since = relay.busy_since
    if timeout_s and busy_since is not None and time.monotonic() - busy_since > timeout_s:
        return f"no thread receives calls for more than {timeout_s:g} s"
    return None


def io_threads(cores: int) -> int:
    """Return how many threads speak HTTP/2 on so many cores.

    On two cores a second one only competes with the thread that receives; one is enough for some 10,000 small requests
    a second. docs/native-transport.md has the measurement.
    """
    return max(1, min(cores // 2, _MOST_IO_THREADS))


def _front_options(settings: Settings) -> dict[str, int | bool]:
    return {
        "io_threads": io_threads(default_threads()),
        "keepalive_time_ms": settings.grpc_keepalive_time,
        "keepalive_timeout_ms": settings.grpc_keepalive_timeout,
        "keepalive_permit_without_calls": settings.grpc_keepalive_permit_without_calls,
    }
