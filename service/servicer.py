"""The RPCs of the service, message in, message out; no transport is known here."""

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from batching.burst import Burst
from protos import grpc_service_pb2 as pb
from service import codec, statistics_codec, stream_codec
from service.caller import UNKNOWN, Caller
from service.catalog import Catalog, Target
from service.data_plane import DataPlane
from service.errors import UNEXPECTED, CancelledError, InternalError, InvalidArgumentError, SignetError
from service.model_version import ModelVersion
from service.request import InferResponse, Ticket
from service.response_codec import encode_response
from service.shared_memory import Regions, RequestMemory
from service.tracing import RequestTrace, Tracer
from service.versions import parse_version

_SHARED_MEMORY = "system_shared_memory"
# What is announced must work; perf_analyzer shows server-side figures only when `statistics` is there.
_EXTENSIONS = (
    "classification",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    _SHARED_MEMORY,
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Later:
    """An answer that has to be waited for.

    Attributes:
        result: done when the answer is there, by a thread of the method's own. The transport cancels it when the caller
            stops to wait, which keeps what was not begun from being done.
        encode: makes the answer's message from it.
    """

    result: Future[Any]
    encode: Callable[[Any], Message]


UnaryMethods = dict[str, tuple[type[Message], Callable[[Any, Caller], Message | Later]]]
"""By name of the RPC: the type of its request, and the method that answers it for a caller, now or later."""


class Rpcs(Protocol):
    """Some RPCs of the service that belong together."""

    def unary_methods(self) -> UnaryMethods:
        """Return the RPCs with one request and one answer."""
        ...


class Servicer:
    """Answers every RPC of the service that is offered. Methods raise the domain's errors."""

    def __init__(
        self,
        catalog: Catalog,
        data_plane: DataPlane,
        *,
        name: str,
        version: str,
        is_ready: Callable[[], bool],
        is_live: Callable[[], bool] = lambda: True,
        regions: Regions | None = None,
        further: Sequence[Rpcs] = (),
        tracer: Tracer | None = None,
    ) -> None:
        """Create the servicer.

        Args:
            catalog: finds models.
            data_plane: runs inference requests.
            name: of the server, as ServerMetadata tells it.
            version: of the server, likewise.
            is_ready: whether the server as a whole is ready.
            is_live: whether the process and its workers are alive.
            regions: the shared memory that requests may name; None means that there is none.
            further: RPCs beside those of this class, each group in a file of its own.
            tracer: transports ask it for a trace of each inference request, before they read its message; None means
                that nothing is traced.
        """
        self._catalog = catalog
        self._data_plane = data_plane
        self._name = name
        self._version = version
        self._is_ready = is_ready
        self._is_live = is_live
        self._regions = Regions(enabled=False) if regions is None else regions
        self._further = further
        self.tracer: Final = tracer

    def unary_methods(self) -> UnaryMethods:
        """Return the type of the request and the method of each unary RPC but ModelInfer."""
        own: dict[str, tuple[type[Message], Callable[[Any], Message]]] = {
            "ServerLive": (pb.ServerLiveRequest, self.server_live),
            "ServerReady": (pb.ServerReadyRequest, self.server_ready),
            "ModelReady": (pb.ModelReadyRequest, self.model_ready),
            "ServerMetadata": (pb.ServerMetadataRequest, self.server_metadata),
            "ModelMetadata": (pb.ModelMetadataRequest, self.model_metadata),
            "ModelConfig": (pb.ModelConfigRequest, self.model_config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self.model_statistics),
        }
        methods: UnaryMethods = {name: (kind, _for_anybody(method)) for name, (kind, method) in own.items()}
        for rpcs in self._further:
            methods |= rpcs.unary_methods()
        return methods

    def infer(
        self,
        message: bytes | pb.ModelInferRequest,
        deadline: float | None,
        done: Callable[[bytes | SignetError], None],
        caller: Caller = UNKNOWN,
        trace: RequestTrace | None = None,
        burst: Burst | None = None,
    ) -> Ticket:
        """Take one inference request.

        Args:
            message: the request, serialized or not.
            deadline: when the caller stops to wait, on the monotonic clock in seconds; None means never.
            done: called exactly once, from any thread, with the serialized ModelInferResponse or the failure.
            caller: who asks; for one who may not use shared memory, no region exists.
            trace: of the request, from ``tracer``; ended here.
            burst: that it came in, to be run afterwards; None for a request of its own.
        """
        request = codec.MessageRequest(message, self._regions if self._regions.is_open_to(caller) else None)
        if trace is not None:
            done = partial(_end_trace, trace, done)
        ticket = self._data_plane.submit(request, deadline, partial(_encode, request, done), trace, burst)
        return _MemoryTicket(ticket, request.memory) if request.memory.outputs else ticket

    def stream_infer(
        self,
        message: pb.ModelInferRequest,
        deadline: float | None,
        done: Callable[[bytes | SignetError], None],
        caller: Caller,
        trace: RequestTrace | None = None,
    ) -> Ticket:
        """Take one request of a stream, as ``infer`` does; an answer comes as a serialized ModelStreamInferResponse."""
        return self.infer(message, deadline, partial(_encode_for_stream, done), caller, trace)

    def stream(self) -> AbstractContextManager[None]:
        """Hold an open stream during a block.

        Raises:
            UnavailableError: when the block is entered, there are as many as may be.
        """
        return self._data_plane.admission.stream()

    def refuse_message(self, nbytes: int, limit: int) -> SignetError:
        """Count a message that is too large, for a transport that looks itself; return the error to answer with."""
        return self._data_plane.admission.refuse_message(nbytes, limit)

    def server_live(self, _request: pb.ServerLiveRequest) -> pb.ServerLiveResponse:
        """Say whether the process and its workers are alive."""
        return pb.ServerLiveResponse(live=self._is_live())

    def server_ready(self, _request: pb.ServerReadyRequest) -> pb.ServerReadyResponse:
        """Say whether every model is ready and the server is not draining."""
        return pb.ServerReadyResponse(ready=self._is_ready())

    def model_ready(self, request: pb.ModelReadyRequest) -> pb.ModelReadyResponse:
        """Say whether a model, a version or an alias would be served now."""
        return pb.ModelReadyResponse(ready=self._catalog.is_ready(request.name, request.version))

    def server_metadata(self, _request: pb.ServerMetadataRequest) -> pb.ServerMetadataResponse:
        """Tell the server's name, version and extensions."""
        extensions = [each for each in _EXTENSIONS if each != _SHARED_MEMORY or self._regions.enabled]
        return pb.ServerMetadataResponse(name=self._name, version=self._version, extensions=extensions)

    def model_metadata(self, request: pb.ModelMetadataRequest) -> pb.ModelMetadataResponse:
        """Describe the inputs and outputs of a model's default signature, or of an alias's."""
        target = self._catalog.find(request.name, request.version)
        loaded = target.loaded
        versions = [loaded] if request.version else self._catalog.ready_versions(request.name)
        return loaded.config.metadata(
            request.name, _described(target), versions=[str(each.version) for each in versions]
        )

    def model_config(self, request: pb.ModelConfigRequest) -> pb.ModelConfigResponse:
        """Tell the completed configuration of a model, or of an alias."""
        target = self._catalog.find(request.name, request.version)
        if target.signature is None:
            return pb.ModelConfigResponse(config=target.loaded.config.model)
        target.loaded.find_alias(target.signature)
        return pb.ModelConfigResponse(config=target.loaded.config.for_signature(target.signature))

    def model_statistics(self, request: pb.ModelStatisticsRequest) -> pb.ModelStatisticsResponse:
        """Tell the counters of every model and used alias, or of one."""
        response = pb.ModelStatisticsResponse()
        if request.name:
            for target in self._statistics_targets(request.name, request.version):
                response.model_stats.append(_statistics(request.name, target.loaded, target.signature))
            return response
        for name in self._catalog.model_names():
            for loaded in self._catalog.ready_versions(name):
                response.model_stats.append(_statistics(name, loaded, None))
                for signature in sorted(loaded.aliases_used):
                    response.model_stats.append(_statistics(f"{name}:{signature}", loaded, signature))
        return response

    def _statistics_targets(self, name: str, version_text: str) -> list[Target]:
        """Return what a name and version mean here, where Triton calls an unknown one an invalid argument."""
        version = parse_version(version_text)
        try:
            targets = self._catalog.find_ready(name)
        except SignetError as error:
            raise InvalidArgumentError(f"requested model '{name}' is not available: {error}") from error
        chosen = [target for target in targets if version in (None, target.loaded.version)]
        if not chosen:
            raise InvalidArgumentError(f"requested model version is not available for model '{name}'")
        return chosen


def _for_anybody(method: Callable[[Any], Message]) -> Callable[[Any, Caller], Message]:
    return lambda message, _caller: method(message)


class _MemoryTicket:
    """The ticket of a request whose outputs go to shared memory."""

    __slots__ = ("_memory", "_ticket")

    def __init__(self, ticket: Ticket, memory: RequestMemory) -> None:
        self._ticket = ticket
        self._memory = memory

    @property
    def was_refused(self) -> bool:
        """Whether it was answered at once with a failure, so that nothing of it was run."""
        return self._ticket.was_refused

    def cancel(self) -> None:
        """Give the request up; also when it runs already, nothing is written, as a next one may use that memory."""
        self._memory.abandon()
        self._ticket.cancel()


def _encode(
    request: codec.MessageRequest, done: Callable[[bytes | SignetError], None], result: InferResponse | SignetError
) -> None:
    answer = _answer(request.memory, result)
    # Before the caller can know: once it has its answer, nothing of its memory is in use.
    request.release()
    done(answer)


def _answer(memory: RequestMemory, result: InferResponse | SignetError) -> bytes | SignetError:
    if isinstance(result, SignetError):
        return result
    if memory.is_abandoned:
        return CancelledError(f"the request was cancelled while model '{result.form.model_name}' ran")
    try:
        return encode_response(result, memory.outputs)
    except SignetError as error:
        return error
    except Exception:
        logger.exception("unexpected error while encoding the answer of model '%s'", result.form.model_name)
        return InternalError(UNEXPECTED)


def _end_trace(trace: RequestTrace, done: Callable[[bytes | SignetError], None], answer: bytes | SignetError) -> None:
    trace.end(answer if isinstance(answer, SignetError) else None)
    done(answer)


def _encode_for_stream(done: Callable[[bytes | SignetError], None], answer: bytes | SignetError) -> None:
    done(stream_codec.encode_stream_answer(answer) if isinstance(answer, bytes) else answer)


def _described(target: Target) -> str | None:
    """Return the signature that metadata describes."""
    if target.signature is None:
        return target.loaded.config.default_signature
    return target.loaded.find_alias(target.signature).signature.name


def _statistics(name: str, loaded: ModelVersion, signature: str | None) -> pb.ModelStatistics:
    return statistics_codec.encode(name, str(loaded.version), loaded.statistics(signature))
