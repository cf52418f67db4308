"""Without a client: stubs made on the fly from the protocol's .proto files, with plain grpcio (and grpcio-tools).

Run it in a process of its own: the messages have the names of tritonclient's, and a process can hold them once.
"""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from grpc_tools import protoc

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_PROTOS = Path(__file__).parents[2] / "protos"


def run(url: str) -> None:
    """Make the stubs, then call with them."""
    with tempfile.TemporaryDirectory() as directory:
        messages, services = _make_stubs(directory)
    request = messages.ModelInferRequest(model_name="digits")
    request.parameters["signature"].string_param = "predict"
    images = request.inputs.add(name="images", datatype="FP32", shape=ZERO.shape)
    images.contents.fp32_contents.extend(ZERO.ravel().tolist())  # typed; raw_input_contents would be quicker
    with grpc.insecure_channel(url) as channel:
        response = services.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=10)
    index = [output.name for output in response.outputs].index("class")
    print(f"a {np.frombuffer(response.raw_output_contents[index], np.int64)[0]}")


def _make_stubs(directory: str) -> tuple[Any, Any]:
    """Return the module of the messages and that of the services."""
    outputs = [f"--{kind}_out={directory}" for kind in ("python", "grpc_python")]
    if protoc.main(["protoc", f"-I{_PROTOS}", *outputs, "model_config.proto", "grpc_service.proto"]):
        raise RuntimeError(f"the definitions in {_PROTOS} could not be compiled")
    sys.path.insert(0, directory)
    return importlib.import_module("grpc_service_pb2"), importlib.import_module("grpc_service_pb2_grpc")


if __name__ == "__main__":
    run(read_url(__doc__))
