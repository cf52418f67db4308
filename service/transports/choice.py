"""Which transport carries the calls: the fast one where all that is asked for can be had from it."""

import logging
from importlib.util import find_spec
from typing import Final, Protocol

from service.access import Access
from service.caller import is_local_address
from service.errors import LoadError
from service.servicer import Servicer
from service.settings import ResponseCompression, Settings, TransportKind
from service.transports.certificates import credentials_of
from service.transports.channel_options import channel_options
from service.transports.exposure import warn_of_exposure
from service.transports.grpcio import GrpcioTransport
from service.transports.health import Health

_PACKAGE: Final = "pygrpc_native"

logger = logging.getLogger(__name__)


class Transport(Protocol):
    """What the life of the server needs of a transport.

    Attributes:
        addresses: where it listens, with the ports that were taken.
    """

    @property
    def name(self) -> str:
        """The transport, as the option has it."""
        ...

    addresses: list[str]

    async def start(self) -> None:
        """Start to take calls."""
        ...

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls; return when those taken are answered, or after ``grace_s`` seconds."""
        ...

    def problems(self, timeout_s: float) -> list[str]:
        """Return what is wrong with the threads that take calls, a line each, in words that stay while it lasts.

        May be called from any thread. A transport that takes them in the event loop alone has nothing to tell.

        Args:
            timeout_s: how long they may do nothing, in seconds; 0 means as long as they like.
        """
        ...

    def abandon(self) -> None:
        """Tell all who wait for an inference that they wait in vain, so that a ``stop`` under way returns."""
        ...


def make_transport(servicer: Servicer, health: Health, settings: Settings, access: Access) -> Transport:
    """Bind the addresses with the transport that the options ask for, and say in the log which it is and why.

    Raises:
        LoadError: the native transport is asked for and cannot be had, or certificates cannot be used.
        OSError: an address cannot be bound.
    """
    credentials = credentials_of(settings)
    kind, reason = choose(settings)
    logger.info("transport %s: %s", kind.value, reason)
    warn_of_exposure(settings)
    if kind is TransportKind.GRPCIO:
        return GrpcioTransport(
            servicer,
            health,
            settings.grpc_targets(),
            channel_options(settings),
            socket_mode=int(settings.grpc_unix_socket_mode, 8),
            credentials=credentials,
            access=access,
        )
    # Only here is it known that the package is there.
    from service.transports.native import NativeTransport  # noqa: PLC0415

    return NativeTransport(servicer, health, settings.grpc_targets(), settings, access)


def choose(settings: Settings) -> tuple[TransportKind, str]:
    """Return the transport that suits the options, and why.

    Raises:
        LoadError: the native one is asked for and cannot be had; the text says why.
    """
    if settings.transport is TransportKind.GRPCIO:
        return TransportKind.GRPCIO, "as asked for"
    missing = _missing(settings)
    if settings.transport is TransportKind.NATIVE:
        if missing is not None:
            raise LoadError(f"--transport native: {missing}")
        return TransportKind.NATIVE, "as asked for"
    if missing is not None:
        return TransportKind.GRPCIO, missing
    far = [address for address in settings.grpc_targets() if not is_local_address(address)]
    if far:
        return TransportKind.GRPCIO, f"{far[0]} is no loopback address, and only grpcio sends GOAWAY before it ends"
    return TransportKind.NATIVE, "every address is a loopback address or a Unix socket"


def _missing(settings: Settings) -> str | None:
    """Return why the native transport cannot do what is asked for, or None."""
    if find_spec(_PACKAGE) is None:
        return "the package pygrpc-native is not installed"
    only_grpcio = {
        "speaks TLS (--grpc-use-ssl)": settings.grpc_use_ssl or settings.grpc_use_ssl_mutual,
        "compresses answers (--grpc-infer-response-compression-level)": (
            settings.grpc_infer_response_compression_level is not ResponseCompression.NONE
        ),
        "ends connections by their age (--grpc-max-connection-age)": settings.grpc_max_connection_age,
        "limits the number of connections (--grpc-max-connections)": settings.grpc_max_connections,
    }
    for what, is_asked_for in only_grpcio.items():
        if is_asked_for:
            return f"only grpcio {what}"
    return None
