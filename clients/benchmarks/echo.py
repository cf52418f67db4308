"""Servers without a model: what gRPC in Python costs before anything is served.

They parse an inference request and send its tensor back, and answer the RPCs that perf_analyzer needs before it starts.
One stands on grpcio (asyncio, uvloop), the other on the native front, as far as it goes: one thread, calls in bursts.
"""

import argparse
from collections.abc import Callable
from typing import Any, Final

import grpc
import uvloop
from pygrpc_native import EVENT_CALL, NativeGrpcFront
from tritonclient.grpc import model_config_pb2 as config_pb
from tritonclient.grpc import service_pb2 as pb

from clients.benchmarks.models import MODELS, Tensor

_SERVICE: Final = "inference.GRPCInferenceService"
_ADDRESS: Final = "127.0.0.1:0"
_MAX_BURST: Final = 64


class Echo:
    """The few RPCs; each is as short as it can be."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._answered = 0
        (self._input,) = {signature.input for signature in MODELS[model].signatures.values()}
        self.methods: Final[dict[str, tuple[Any, Callable[[Any], Any]]]] = {
            "ModelInfer": (pb.ModelInferRequest, self._infer),
            "ServerReady": (pb.ServerReadyRequest, lambda _: pb.ServerReadyResponse(ready=True)),
            "ServerMetadata": (pb.ServerMetadataRequest, lambda _: pb.ServerMetadataResponse(name="echo")),
            "ModelReady": (pb.ModelReadyRequest, lambda _: pb.ModelReadyResponse(ready=True)),
            "ModelMetadata": (pb.ModelMetadataRequest, self._metadata),
            "ModelConfig": (pb.ModelConfigRequest, self._config),
            "ModelStatistics": (pb.ModelStatisticsRequest, self._statistics),
        }

    def _infer(self, request: Any) -> Any:
        self._answered += 1
        answer = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        taken = request.inputs[0]
        answer.outputs.add(name=taken.name, datatype=taken.datatype, shape=taken.shape)
        answer.raw_output_contents.append(request.raw_input_contents[0])
        return answer

    def _metadata(self, _request: Any) -> Any:
        tensor = _metadata(self._input)
        return pb.ModelMetadataResponse(name=self._model, versions=["1"], inputs=[tensor], outputs=[tensor])

    def _config(self, _request: Any) -> Any:
        datatype = config_pb.DataType.Value(f"TYPE_{self._input.datatype}")
        config = config_pb.ModelConfig(name=self._model, max_batch_size=64)
        for tensor in (config.input.add(), config.output.add()):
            tensor.name, tensor.data_type = self._input.name, datatype
            tensor.dims.extend(self._input.dims)
        return pb.ModelConfigResponse(config=config)

    def _statistics(self, _request: Any) -> Any:
        one = pb.ModelStatistics(name=self._model, version="1")
        one.inference_count = one.execution_count = one.inference_stats.success.count = self._answered
        return pb.ModelStatisticsResponse(model_stats=[one])


async def serve_on_grpcio(echo: Echo) -> None:
    """Serve until the process is ended."""
    server = grpc.aio.server()
    handlers = {
        name: grpc.unary_unary_rpc_method_handler(_asynchronous(ask), kind.FromString, _serialize)
        for name, (kind, ask) in echo.methods.items()
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, handlers),))
    port = server.add_insecure_port(_ADDRESS)
    await server.start()
    _announce(port)
    await server.wait_for_termination()


def serve_on_native(echo: Echo) -> None:
    """Serve until the process is ended."""
    methods = [*echo.methods.values()]
    # As many threads as Signet's transport gives it on two cores.
    front = NativeGrpcFront(_ADDRESS, [(f"/{_SERVICE}/{name}", False) for name in echo.methods], io_threads=1)
    front.start()
    _announce(front.bound_port)
    while (events := front.recv_batch(_MAX_BURST)) is not None:
        for event, call, method, payload, _ in events:
            if event == EVENT_CALL:
                kind, ask = methods[method]
                front.respond(call, ask(kind.FromString(payload)).SerializeToString())


def _asynchronous(ask: Callable[[Any], Any]) -> Any:
    async def handler(request: Any, _context: Any) -> Any:
        return ask(request)

    return handler


def _serialize(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


def _announce(port: int) -> None:
    print(f"gRPC at 127.0.0.1:{port}", flush=True)


def _metadata(tensor: Tensor) -> Any:
    return pb.ModelMetadataResponse.TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=[-1, *tensor.dims])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    parser.add_argument("--native", action="store_true", help="on the native front instead of grpcio")
    options = parser.parse_args()
    if options.native:
        serve_on_native(Echo(options.model))
    else:
        uvloop.run(serve_on_grpcio(Echo(options.model)))
