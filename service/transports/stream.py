"""ModelStreamInfer: many requests in one call, answered in the order in which they came.

One task of a stream reads and submits, the call itself waits for the answers and sends them. So requests of one stream
wait in the batcher together and may share a run, while each answer leaves as soon as its turn allows.
"""

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

import grpc

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.errors import SignetError
from service.request import Ticket
from service.servicer import Servicer
from service.status import status_of
from service.stream_codec import encode_stream_failure
from service.transports.allowance import Allowance
from service.transports.call import Context, abort, parse
from service.transports.completions import Completions
from service.transports.lasting import LastingCalls

# Enough for a full batch in each of two workers and as much again in the queue, at 64 rows a batch; a client that sends
# more is held up by the flow control of its connection.
MAX_REQUESTS: Final = 256
MAX_BYTES: Final = 64 * 2**20

_STATUS_HEADER: Final = ("triton_grpc_error", "true")


@dataclass(frozen=True, slots=True)
class _Taken:
    """A request whose answer was not sent yet; of its message only what an error tells."""

    head: pb.ModelInferRequest
    ticket: Ticket
    answer: "asyncio.Future[bytes | SignetError]"


class InferStream:
    """One call of ModelStreamInfer. Requests of other calls do not wait for it, nor it for them."""

    def __init__(
        self,
        context: Context,
        caller: Caller,
        servicer: Servicer,
        completions: "Completions[bytes | SignetError]",
        lasting: LastingCalls,
    ) -> None:
        self._context = context
        self._servicer = servicer
        self._completions = completions
        self._lasting = lasting
        remaining_s = context.time_remaining()
        self._deadline = None if remaining_s is None else time.monotonic() + remaining_s
        self._metadata = tuple(context.invocation_metadata() or ())
        self._failure_ends_stream = _STATUS_HEADER in map(tuple, self._metadata)
        self._caller = caller
        self._held = Allowance(MAX_REQUESTS, MAX_BYTES)
        # After the last request stands why there is none after it: None for the client's end, else an error.
        self._taken: asyncio.Queue[_Taken | Exception | None] = asyncio.Queue()

    async def serve(self) -> None:
        """Answer every request until the client ends the stream, or the server stops.

        A stopping server takes no more requests of a stream, answers those that it took and ends with UNAVAILABLE. When
        the call ends early, because its client left or its deadline passed, requests that still wait are given up.
        """
        reading = asyncio.create_task(self._read())
        try:
            end = await self._send_answers()
            if end is not None:
                await abort(self._context, end)
        finally:
            reading.cancel()
            self._give_up()

    async def _read(self) -> None:
        try:
            with self._lasting.until_stop():
                while (data := await self._context.read()) is not grpc.aio.EOF:
                    self._take(data)
                    await self._held.room()
        except Exception as error:  # noqa: BLE001 - the call ends with it, in its turn
            self._taken.put_nowait(error)
        else:
            self._taken.put_nowait(None)

    def _take(self, data: bytes) -> None:
        tracer = self._servicer.tracer
        trace = None if tracer is None else tracer.begin(self._metadata)
        message = parse(pb.ModelInferRequest, data)
        answer = self._completions.future()
        self._held.use(requests=1, nbytes=len(data))
        answer.add_done_callback(partial(self._hold_answer, len(data)))
        done = partial(self._completions.put, answer)
        ticket = self._servicer.stream_infer(message, self._deadline, done, self._caller, trace)
        head = pb.ModelInferRequest(id=message.id, model_name=message.model_name, model_version=message.model_version)
        self._taken.put_nowait(_Taken(head, ticket, answer))

    def _hold_answer(self, request_bytes: int, answer: "asyncio.Future[bytes | SignetError]") -> None:
        """The batcher has let go of the request; the answer is held instead until it is sent."""
        self._held.use(nbytes=(0 if answer.cancelled() else _size(answer.result())) - request_bytes)

    async def _send_answers(self) -> Exception | None:
        """Answer one request after the other; return with what the call ends, None where nothing went wrong."""
        while isinstance(taken := await self._taken.get(), _Taken):
            failure = await self._send_answer(taken)
            if failure is not None:
                return failure
        return taken

    async def _send_answer(self, taken: _Taken) -> SignetError | None:
        """Send the answer to one request, or return the failure that ends the call."""
        try:
            result = await taken.answer
        except asyncio.CancelledError:
            taken.ticket.cancel()
            raise
        if isinstance(result, bytes):
            await self._context.write(result)
        elif self._failure_ends_stream and not taken.ticket.was_refused:
            return result
        else:
            _, text = status_of(result)
            await self._context.write(encode_stream_failure(text, taken.head, was_refused=taken.ticket.was_refused))
        self._held.use(requests=-1, nbytes=-_size(result))
        return None

    def _give_up(self) -> None:
        while not self._taken.empty():
            taken = self._taken.get_nowait()
            if isinstance(taken, _Taken):
                taken.ticket.cancel()


def _size(result: bytes | SignetError) -> int:
    return len(result) if isinstance(result, bytes) else 0
