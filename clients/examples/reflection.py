"""Without a client and without a .proto file: the server describes its service, as grpcurl and grpcui use it."""

from typing import Any

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_SERVICE = "inference.GRPCInferenceService"


def run(url: str) -> None:
    """List the methods, then call one with messages made from the description."""
    with grpc.insecure_channel(url) as channel:
        service = DescriptorPool(ProtoReflectionDescriptorDatabase(channel)).FindServiceByName(_SERVICE)
        print("methods:", ", ".join(sorted(service.methods_by_name)))
        method = service.methods_by_name["ModelInfer"]
        request_class, response_class = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        request: Any = request_class(model_name="digits", raw_input_contents=[ZERO.tobytes()])
        request.parameters["signature"].string_param = "predict"
        request.inputs.add(name="images", datatype="FP32", shape=ZERO.shape)
        call = channel.unary_unary(
            f"/{_SERVICE}/ModelInfer", request_class.SerializeToString, response_class.FromString
        )
        response = call(request, timeout=10)
    for output, raw in zip(response.outputs, response.raw_output_contents, strict=True):
        print(f"{output.name} {output.datatype}{list(output.shape)}: {raw.hex()}")


if __name__ == "__main__":
    run(read_url(__doc__))
