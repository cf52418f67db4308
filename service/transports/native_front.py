"""One address of the native transport: takes calls in bursts, hands them to the servicer and sends the answers.

No thread waits for a call. The native server's own threads speak HTTP/2 outside the interpreter. One thread per address
receives what came as a burst, submits it, and runs and answers at once what is quick; a worker answers the rest when
it ran the batch. The few calls that are no inference go through the event loop, as those of the grpcio transport do.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message
from pygrpc_native import EVENT_CANCEL, NativeGrpcFront

from batching.burst import Burst
from service.access import Access
from service.caller import Caller, caller_of
from service.errors import CancelledError, UnavailableError
from service.request import Ticket
from service.servicer import Later, Servicer
from service.status import status_of
from service.transports.call import parse
from service.transports.relay import Errand, Relay
from service.transports.unix_socket import SCHEME, private_socket

Method: TypeAlias = tuple[type[Message], Callable[[Any, Caller], Message | Later]]
"""The type of a request, and what answers it for a caller, now or later."""

_Details: TypeAlias = tuple[Any, str, float | None]
"""Metadata, peer, and seconds until the caller's deadline, as the front tells them of a call."""

_MAX_BURST: Final = 64

logger = logging.getLogger(__name__)


class _Call:
    """A call that was taken and not answered yet. Whoever finishes it first answers it; the others change nothing."""

    __slots__ = ("_front", "_number", "ticket")

    def __init__(self, front: "Front", number: int) -> None:
        self._front = front
        self._number = number
        self.ticket: Ticket | None = None

    def cancel(self) -> None:
        """Give up what the caller no longer waits for; only for the thread that sets the ticket."""
        if self.ticket is not None:
            self.ticket.cancel()

    def finish(self, result: bytes | Exception) -> None:
        """Answer, from any thread; the front drops what comes for a caller that left."""
        if self._front.forget(self._number):
            self._front.answer(self._number, result)


class _Pending:
    """The ticket of an answer that comes later."""

    __slots__ = ("_result",)

    was_refused: Final = False

    def __init__(self, result: Future[Any]) -> None:
        self._result = result

    def cancel(self) -> None:
        """Keep what was not begun from being done."""
        self._result.cancel()


class Front:
    """Serves unary methods at one address, and passes all others on to a server behind it."""

    def __init__(
        self,
        address: str,
        servicer: Servicer,
        methods: dict[str, Method],
        *,
        infer: str,
        probes: Container[str],
        access: Access,
        max_bytes: int,
        socket_mode: int,
        options: dict[str, int | bool],
    ) -> None:
        """Bind the address.

        Args:
            address: as gRPC writes it; port 0 means any.
            servicer: takes the inference requests.
            methods: by path, all other unary methods; they are called in the running event loop.
            infer: the path of ModelInfer.
            probes: paths of the methods that are answered as long as there is a connection.
            access: who may call what.
            max_bytes: the most that a request message may have; 0 means no limit.
            socket_mode: permissions of a Unix socket.
            options: further arguments of the native server.

        Raises:
            OSError: the address cannot be bound; the text names it.
        """
        self._servicer = servicer
        self._loop = asyncio.get_running_loop()
        self._paths = [*methods, infer]
        self._methods = [*methods.values()]
        self._probes = frozenset(number for number, path in enumerate(methods) if path in probes)
        self._infer_id = len(methods)
        self._access = access
        self._asks_nothing = not access
        self._max_bytes = max_bytes
        with private_socket(address, socket_mode):
            self._front = _bind(address, self._paths, options)
        self.address = address if address.startswith(SCHEME) else _with_port(address, self._front.bound_port)
        self._relay: Final = Relay(
            f"front-{self.address}", partial(self._front.recv_batch_details, _MAX_BURST), self._take_burst
        )
        # Guards the decision whether calls are taken: after ``refuse`` none is under way into ``_calls``.
        self._taking = threading.Lock()
        self._refuses = False
        self._ignores = False
        self._ignored: set[int] = set()
        self._calls: dict[int, _Call] = {}
        self._taken: list[int] = []

    def __repr__(self) -> str:
        return f"<Front {self.address}: {len(self._calls)} calls{', refusing' if self._refuses else ''}>"

    @property
    def relay(self) -> Relay[Any]:
        """The threads that receive, for those who watch them."""
        return self._relay

    def start(self, fallback: str) -> None:
        """Start to take calls; ``fallback`` is the path of the socket of the server behind this one."""
        self._front.set_fallback(fallback)
        self._front.start()
        self._relay.start()

    def refuse(self) -> None:
        """From now on, answer every new call with UNAVAILABLE, except probes."""
        with self._taking:
            self._refuses = True
            self._taken = list(self._calls)

    def ignore(self) -> None:
        """From now on, leave new calls without an answer; they fail with UNAVAILABLE when the front is closed."""
        with self._taking:
            self._ignores = True

    @property
    def holds_calls(self) -> bool:
        """Whether there are calls that were taken before ``refuse`` and are not answered."""
        return any(number in self._calls for number in self._taken)

    @property
    def has_sent_all(self) -> bool:
        """Whether every answer is on its way to its caller; only true once new calls are ignored.

        ``close`` cuts off answers that wait for their connection. The native server counts the calls that began and
        those that ended with all of their answer passed on; refused calls, which come and go, would hide the moment.
        """
        counts: Any = (self._front.metrics() or {})["methods"].values()
        begun = sum(told["started"] for told in counts)
        ended = sum(each["count"] for told in counts for each in told["status"].values())
        return self._ignores and begun - ended <= len(self._ignored)

    def abandon(self) -> None:
        """Tell all who wait that they wait in vain."""
        for call in list(self._calls.values()):
            call.finish(UnavailableError("the server is stopping"))

    def let_go(self) -> None:
        """Free the answers that were sent: the native server's threads leave that to its next call from Python."""
        self._front.metrics()  # any call would do

    def close(self) -> None:
        """Close all connections; calls that were not answered fail with UNAVAILABLE."""
        self._front.close()
        self._relay.join()

    def forget(self, number: int) -> bool:
        """Return whether a call was still to be answered, which is now the caller's duty."""
        return self._calls.pop(number, None) is not None

    def answer(self, number: int, result: bytes | Exception) -> None:
        """Send what a call ends with, from any thread."""
        if isinstance(result, bytes):
            self._front.respond(number, result)
        else:
            code, text = status_of(result)
            self._front.fail(number, code.value[0], text)

    # The thread that receives, in turns one of two. ------------------------------------------------------------------

    def _take_burst(self, events: Sequence[Any]) -> Errand | None:
        """Take a number of calls and cancellations; return what is left to be done for them."""
        burst = Burst()
        with self._taking:
            for kind, number, method, payload, _, details in events:
                if kind == EVENT_CANCEL:
                    self._cancel(number, method)
                elif self._ignores:
                    self._ignored.add(number)
                else:
                    self._take(number, method, payload, details, burst)
        return burst.run if burst else None

    def _take(self, number: int, method: int, payload: bytes, details: _Details, burst: Burst) -> None:
        call = self._calls[number] = _Call(self, number)
        try:
            if not self._asks_nothing or self._refuses or 0 < self._max_bytes < len(payload):
                self._check(method, payload, details)
            if method == self._infer_id:
                self._infer(call, payload, details, burst)
            else:
                self._loop.call_soon_threadsafe(self._ask, call, self._methods[method], payload, caller_of(details[1]))
        except Exception as error:  # noqa: BLE001 - `status_of` logs what is not expected; this thread must go on
            call.finish(error)

    def _check(self, method: int, payload: bytes, details: _Details) -> None:
        if self._access:
            refusal = self._access.refusal(self._paths[method], details[0])
            if refusal is not None:
                raise refusal
        if self._refuses and method not in self._probes:
            raise UnavailableError("the server is stopping")
        if 0 < self._max_bytes < len(payload):
            raise self._servicer.refuse_message(len(payload), self._max_bytes)

    def _infer(self, call: _Call, payload: bytes, details: _Details, burst: Burst) -> None:
        metadata, peer, remaining_s = details
        deadline = None if remaining_s is None else time.monotonic() + remaining_s
        tracer = self._servicer.tracer
        trace = None if tracer is None else tracer.begin(metadata)
        call.ticket = self._servicer.infer(payload, deadline, call.finish, caller_of(peer), trace, burst)

    def _cancel(self, number: int, method: int) -> None:
        call = self._calls.get(number)
        if call is None:
            self._ignored.discard(number)
        elif method == self._infer_id:
            call.cancel()
        else:
            self._loop.call_soon_threadsafe(call.cancel)

    # The event loop. -------------------------------------------------------------------------------------------------

    def _ask(self, call: _Call, method: Method, payload: bytes, caller: Caller) -> None:
        request_type, ask = method
        try:
            answer = ask(parse(request_type, payload), caller)
            if isinstance(answer, Later):
                call.ticket = _Pending(answer.result)
                answer.result.add_done_callback(partial(_finish, call, answer.encode))
            else:
                call.finish(answer.SerializeToString())
        except Exception as error:  # noqa: BLE001 - likewise
            call.finish(error)


def _bind(address: str, paths: Sequence[str], options: dict[str, int | bool]) -> NativeGrpcFront:
    arguments: dict[str, Any] = dict(options)
    try:
        return NativeGrpcFront(
            address,
            [(path, False) for path in paths],
            call_details=True,
            # They tell which answers have left, see `is_idle`.
            metrics=True,
            **arguments,
        )
    except OSError as error:
        raise OSError(f"cannot listen on {address}: is another server using it? ({error.strerror})") from error


def _with_port(address: str, port: int) -> str:
    return f"{address.rpartition(':')[0]}:{port}"


def _finish(call: _Call, encode: Callable[[Any], Message], result: Future[Any]) -> None:
    """Answer a call with a result that has come, in the thread that made it."""
    if result.cancelled():
        call.finish(CancelledError("the caller gave up before its turn came"))
        return
    try:
        answer = encode(result.result()).SerializeToString()
    except Exception as error:  # noqa: BLE001 - likewise
        call.finish(error)
    else:
        call.finish(answer)
