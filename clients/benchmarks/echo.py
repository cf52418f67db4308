"""A grpcio server without a model: what gRPC in Python costs before anything is served.

It answers every inference with the request's own tensor, and the RPCs that perf_analyzer needs before it starts.
"""

import argparse
from typing import Any

import grpc
import uvloop
from tritonclient.grpc import model_config_pb2 as config_pb
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc as rpc

from clients.benchmarks.models import MODELS, Tensor


class Echo(rpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # tritonclient publishes no types
    """The few RPCs; each is as short as it can be."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._answered = 0
        (self._input,) = {signature.input for signature in MODELS[model].signatures.values()}

    async def ServerReady(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        return pb.ServerReadyResponse(ready=True)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        return pb.ServerMetadataResponse(name="triton", version="2")

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        return pb.ModelReadyResponse(ready=True)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        tensor = _metadata(self._input)
        return pb.ModelMetadataResponse(name=self._model, versions=["1"], inputs=[tensor], outputs=[tensor])

    async def ModelConfig(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        datatype = config_pb.DataType.Value(f"TYPE_{self._input.datatype}")
        config = config_pb.ModelConfig(name=self._model, max_batch_size=64)
        for tensor in (config.input.add(), config.output.add()):
            tensor.name, tensor.data_type = self._input.name, datatype
            tensor.dims.extend(self._input.dims)
        return pb.ModelConfigResponse(config=config)

    async def ModelStatistics(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        one = pb.ModelStatistics(name=self._model, version="1")
        one.inference_count = one.execution_count = one.inference_stats.success.count = self._answered
        return pb.ModelStatisticsResponse(model_stats=[one])

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802, ARG002, D102
        self._answered += 1
        answer = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        taken = request.inputs[0]
        answer.outputs.add(name=taken.name, datatype=taken.datatype, shape=taken.shape)
        answer.raw_output_contents.append(request.raw_input_contents[0])
        return answer


async def serve(model: str) -> None:
    """Serve until the process is ended."""
    server = grpc.aio.server()
    rpc.add_GRPCInferenceServiceServicer_to_server(Echo(model), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"gRPC at 127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def _metadata(tensor: Tensor) -> Any:
    return pb.ModelMetadataResponse.TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=[-1, *tensor.dims])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=sorted(MODELS))
    uvloop.run(serve(parser.parse_args().model))
