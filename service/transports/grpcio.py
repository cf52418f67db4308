"""The reference transport: an asyncio gRPC server on grpcio."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from protos import grpc_service_pb2 as pb
from service.caller import Caller, caller_of
from service.errors import InternalError, SignetError
from service.servicer import Servicer
from service.status import status_of
from service.transports.completions import Completions
from service.transports.health import Health

SERVICE_NAME: Final = "inference.GRPCInferenceService"

_OPTIONS: Final = (
    # Both directions are limited by protobuf alone; tensors of hundreds of megabytes are everyday.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A second server on the port must fail loudly instead of taking half of the calls.
    ("grpc.so_reuseport", 0),
    # Pings 5 s apart or slower, with or without calls, are welcome (the default throws such clients out).
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 4500),
    ("grpc.http2.min_ping_interval_without_data_ms", 4500),
    ("grpc.keepalive_permit_without_calls", 1),
)

M = TypeVar("M", bound=Message)

_Context: TypeAlias = Any  # grpc.aio.ServicerContext, which publishes no types


class GrpcioTransport:
    """Serves the protocol and grpc.health.v1 on the given addresses, in the running event loop."""

    def __init__(self, servicer: Servicer, health: Health, addresses: Sequence[str]) -> None:
        """Bind the addresses.

        Args:
            servicer: answers the calls.
            health: answers grpc.health.v1.
            addresses: gRPC addresses, such as ``127.0.0.1:8001`` or ``unix:/run/signet.sock``; port 0 means any.

        Raises:
            OSError: an address cannot be bound; the text names it.
        """
        self._servicer = servicer
        self._completions: Completions[bytes | SignetError] = Completions(asyncio.get_running_loop())
        self._server = grpc.aio.server(options=_OPTIONS)
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE_NAME, self._handlers())])
        health.add_to(self._server)
        self.addresses = [self._bind(address) for address in addresses]

    def _bind(self, address: str) -> str:
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address}: is another server using it?") from error
        return address if address.startswith("unix:") else f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        """Start to take calls."""
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls (clients see GOAWAY); return when those taken are answered, or after ``grace_s`` seconds."""
        await self._server.stop(grace_s)

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handlers, which take and give serialized messages.

        So a message that cannot be parsed gets a status of ours, and a worker serializes its own large answers.
        """
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(partial(self._answer, request_type, method))
            for name, (request_type, method) in self._servicer.unary_methods().items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._infer)
        return handlers

    async def _answer(
        self, request_type: type[Message], method: Callable[[Any, Caller], Message], data: bytes, context: _Context
    ) -> bytes:
        try:
            answer = method(_parse(request_type, data), caller_of(context.peer()))
        except Exception as error:  # noqa: BLE001 - `status_of` logs what is not expected
            return await _abort(context, error)
        return answer.SerializeToString()

    async def _infer(self, data: bytes, context: _Context) -> bytes:
        answer = self._completions.future()
        remaining_s = context.time_remaining()
        deadline = None if remaining_s is None else time.monotonic() + remaining_s
        try:
            message = _parse(pb.ModelInferRequest, data)
            caller = caller_of(context.peer())
            ticket = self._servicer.infer(message, deadline, partial(self._completions.put, answer), caller)
        except Exception as error:  # noqa: BLE001 - likewise
            return await _abort(context, error)
        try:
            result = await answer
        except asyncio.CancelledError:
            # The caller left or its deadline passed: nobody waits for the answer.
            ticket.cancel()
            raise
        return result if isinstance(result, bytes) else await _abort(context, result)


def _parse(request_type: type[M], data: bytes) -> M:
    try:
        return request_type.FromString(data)
    except DecodeError as error:
        raise InternalError("Unable to parse request") from error


async def _abort(context: _Context, error: Exception) -> NoReturn:
    """End a call with the status that tells of an error."""
    code, text = status_of(error)
    await context.abort(code, text)
    raise AssertionError("abort always raises")
