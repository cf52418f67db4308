"""A gRPC server that answers grpc.health.v1 and nothing else, on threads of its own."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

_MOST_CALLS: Final = 256
_MOST_BYTES: Final = 4096


class HealthServer:
    """Says the same as ``Health``, which it follows; a watch holds no thread. Listens on an abstract Unix socket.

    Attributes:
        path: of the socket, as the operating system writes it.
    """

    def __init__(self) -> None:
        """Begin to answer."""
        name = f"signet-health-{uuid.uuid4()}"
        self.path: Final = f"\0{name}"
        self._servicer: Final = health.HealthServicer()
        self._server: Final = grpc.server(
            ThreadPoolExecutor(2, thread_name_prefix="health"),
            maximum_concurrent_rpcs=_MOST_CALLS,
            options=[("grpc.max_receive_message_length", _MOST_BYTES)],
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, self._server)
        self._server.add_insecure_port(f"unix-abstract:{name}")
        self._server.start()

    def set(self, service: str, status: health_pb2.HealthCheckResponse.ServingStatus) -> None:
        """Say how a service is from now on."""
        self._servicer.set(service, status)

    def close(self) -> None:
        """Answer nobody any more; watches end."""
        self._server.stop(None).wait()
