"""The reference transport: an asyncio gRPC server on grpcio."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf.message import Message

from batching.burst import Burst
from service.access import ANYBODY, Access
from service.caller import Caller, caller_of
from service.errors import SignetError, UnavailableError
from service.servicer import Later, Servicer
from service.transports.access_check import AccessCheck
from service.transports.call import Context, abort, parse
from service.transports.certificates import ServerCredentials
from service.transports.completions import Completions
from service.transports.farewell import Farewell
from service.transports.health import Health
from service.transports.lasting import LastingCalls
from service.transports.reflection import reflection_handler
from service.transports.stream import InferStream
from service.transports.unix_socket import SCHEME, private_socket

SERVICE_NAME: Final = "inference.GRPCInferenceService"

# Of two values for one argument gRPC takes the first.
_DEFAULT_OPTIONS: Final = (
    # If no option says otherwise, protobuf alone limits both directions; tensors of hundreds of megabytes are everyday.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A second server on the port must fail loudly instead of taking half of the calls.
    ("grpc.so_reuseport", 0),
)


class GrpcioTransport:
    """Serves the protocol, grpc.health.v1 and reflection on the given addresses, in the running event loop."""

    name: Final = "grpcio"

    def __init__(
        self,
        servicer: Servicer,
        health: Health,
        addresses: Sequence[str],
        options: Sequence[tuple[str, int]] = (),
        *,
        socket_mode: int = 0o660,
        callers: Callable[[str], Caller] = caller_of,
        credentials: ServerCredentials | None = None,
        access: Access = ANYBODY,
    ) -> None:
        """Bind the addresses.

        Args:
            servicer: answers the calls.
            health: answers grpc.health.v1.
            addresses: gRPC addresses, such as ``127.0.0.1:8001`` or ``unix:/run/signet.sock``; port 0 means any.
            options: further channel arguments of gRPC.
            socket_mode: permissions of Unix sockets.
            callers: says of a peer's name who it is.
            credentials: for TLS at all addresses but Unix sockets; None speaks plain text.
            access: who may call what.

        Raises:
            OSError: an address cannot be bound; the text names it.
        """
        self._servicer = servicer
        self._callers = callers
        self._loop = asyncio.get_running_loop()
        self._completions: Completions[bytes | SignetError] = Completions(self._loop)
        self._burst = Burst()
        self._lasting = LastingCalls()
        self._farewell = Farewell()
        self._refuses = False
        self._server = grpc.aio.server(
            interceptors=[AccessCheck(access)] if access else None, options=(*options, *_DEFAULT_OPTIONS)
        )
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(SERVICE_NAME, self._handlers()),
                health.handler(self._lasting),
                reflection_handler(self._lasting),
            ]
        )
        self.addresses = [self._bind(address, socket_mode, credentials) for address in addresses]

    def _bind(self, address: str, socket_mode: int, credentials: ServerCredentials | None) -> str:
        with private_socket(address, socket_mode):
            try:
                if credentials is None or address.startswith(SCHEME):
                    port = self._server.add_insecure_port(address)
                else:
                    port = self._server.add_secure_port(address, credentials)
            except RuntimeError as error:
                raise OSError(f"cannot listen on {address}: is another server using it?") from error
        return address if address.startswith(SCHEME) else f"{address.rpartition(':')[0]}:{port}"

    async def start(self) -> None:
        """Start to take calls."""
        await self._server.start()

    async def stop(self, grace_s: float) -> None:
        """Refuse new calls; return when those taken are answered, or after ``grace_s`` seconds.

        Refused calls are UNAVAILABLE, and clients see GOAWAY; see ``Farewell`` for their order. Streams end when the
        requests that they took are answered.
        """
        self._refuses = True
        self._lasting.stop()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + grace_s
        try:
            await self._farewell.hold(grace_s)
            stopping = loop.create_task(self._server.stop(max(0.0, ends_at - loop.time())))
            await asyncio.sleep(0)  # now gRPC has told its clients to go
        finally:
            self._farewell.release()
        await stopping

    def problems(self, timeout_s: float) -> list[str]:  # noqa: ARG002 - as the other transport has it
        """Return nothing: calls are taken in the event loop, which the server watches itself."""
        return []

    def abandon(self) -> None:
        """Tell all who wait for an inference that they wait in vain, so that a ``stop`` under way returns.

        A second ``stop`` with a shorter grace, as gRPC offers it, is no way: it may reach into a server that the first
        one has just destroyed, and then the process dies.
        """
        self._completions.settle(UnavailableError("the server is stopping"))

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        """Return the handlers, which take and give serialized messages.

        So a message that cannot be parsed gets a status of ours, and a worker serializes its own large answers.
        """
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(partial(self._answer, request_type, method))
            for name, (request_type, method) in self._servicer.unary_methods().items()
        }
        handlers["ModelInfer"] = grpc.unary_unary_rpc_method_handler(self._infer)
        handlers["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._stream_infer)
        return handlers

    async def _answer(
        self,
        request_type: type[Message],
        method: Callable[[Any, Caller], Message | Later],
        data: bytes,
        context: Context,
    ) -> bytes:
        try:
            await self._farewell.turn()
            answer = method(parse(request_type, data), self._callers(context.peer()))
            if isinstance(answer, Later):
                answer = answer.encode(await asyncio.wrap_future(answer.result))
        except Exception as error:  # noqa: BLE001 - `status_of` logs what is not expected
            return await abort(context, error)
        return answer.SerializeToString()

    async def _infer(self, data: bytes, context: Context) -> bytes:
        if self._refuses:
            await self._farewell.turn()
            return await abort(context, UnavailableError("the server is stopping"))
        answer = self._completions.future()
        remaining_s = context.time_remaining()
        deadline = None if remaining_s is None else time.monotonic() + remaining_s
        try:
            tracer = self._servicer.tracer
            trace = None if tracer is None else tracer.begin(context.invocation_metadata() or ())
            caller = self._callers(context.peer())
            done = partial(self._completions.put, answer)
            ticket = self._servicer.infer(data, deadline, done, caller, trace, self._burst_of_this_turn())
        except Exception as error:  # noqa: BLE001 - likewise
            return await abort(context, error)
        try:
            result = await answer
        except asyncio.CancelledError:
            # The caller left or its deadline passed: nobody waits for the answer.
            ticket.cancel()
            raise
        return result if isinstance(result, bytes) else await abort(context, result)

    def _burst_of_this_turn(self) -> Burst:
        """Return what collects the requests of this turn of the event loop.

        In its next turn those are run that should be over before a worker would be awake; workers get the others.
        """
        if not self._burst:
            self._loop.call_soon(self._burst.run)
        return self._burst

    async def _stream_infer(self, _requests: object, context: Context) -> None:
        await self._farewell.turn()
        with ExitStack() as held:
            try:
                held.enter_context(self._servicer.stream())
            except UnavailableError as error:
                await abort(context, error)
                return
            caller = self._callers(context.peer())
            await InferStream(context, caller, self._servicer, self._completions, self._lasting).serve()
