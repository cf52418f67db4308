"""Protobuf messages of ModelInfer to requests, and answers to messages."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from protos import grpc_service_pb2 as pb
from service import raw_tensor
from service.datatypes import DATATYPES
from service.errors import InvalidArgumentError, NotFoundError, ResourceExhaustedError, UnimplementedError
from service.parameters import DEFAULTS, Parameter, RequestParameters, read_parameters
from service.request import InferResponse, InputTensor

_TYPED_FIELDS: Final[dict[str, frozenset[str]]] = {
    "bool_contents": frozenset({"BOOL"}),
    "int_contents": frozenset({"INT8", "INT16", "INT32"}),
    "int64_contents": frozenset({"INT64"}),
    "uint_contents": frozenset({"UINT8", "UINT16", "UINT32"}),
    "uint64_contents": frozenset({"UINT64"}),
    "fp32_contents": frozenset({"FP32"}),
    "fp64_contents": frozenset({"FP64"}),
    "bytes_contents": frozenset({"BYTES"}),
}
"""The field of InferTensorContents that holds each datatype. FP16 and BF16 have none."""

_FIELD_OF: Final = {datatype: name for name, datatypes in _TYPED_FIELDS.items() for datatype in datatypes}

# A narrow integer travels in a field of 32 or 64 bits; the low bytes count, as in Triton.
_FIELD_DTYPE: Final = {"int_contents": np.int32, "uint_contents": np.uint32}

# Protobuf's limit is 2^31-1 for the whole message; the rest is kept for names and shapes.
MAX_MESSAGE_BYTES: Final = 2**31 - 2**20

_SHARED_MEMORY: Final = "shared_memory_region"


class MessageRequest:
    """A ModelInferRequest, read part by part; see ``service.request.InferRequest``."""

    __slots__ = ("_message", "id", "model_name", "model_version")

    def __init__(self, message: pb.ModelInferRequest) -> None:
        self._message = message
        self.model_name = message.model_name
        self.model_version = message.model_version
        self.id = message.id

    def parameters(self) -> RequestParameters:
        """Read the request's parameters."""
        parameters = self._message.parameters
        return read_parameters(_parameters(parameters)) if parameters else DEFAULTS

    def inputs(self) -> list[InputTensor]:
        """Pair every input with its data.

        The k-th raw entry belongs to the k-th input that is not in shared memory; surplus entries are ignored.
        """
        message = self._message
        _refuse_duplicates([tensor.name for tensor in message.inputs], "input")
        raw = iter(message.raw_input_contents)
        any_raw = bool(message.raw_input_contents)
        return [
            InputTensor(
                tensor.name, tensor.datatype, tuple(tensor.shape), self._data_of(tensor, raw if any_raw else None)
            )
            for tensor in message.inputs
        ]

    def _data_of(
        self, tensor: pb.ModelInferRequest.InferInputTensor, raw: Iterator[bytes] | None
    ) -> bytes | np.ndarray:
        where = f"'{tensor.name}' for model '{self.model_name}'"
        if tensor.parameters and _SHARED_MEMORY in tensor.parameters:
            region = tensor.parameters[_SHARED_MEMORY].string_param
            raise NotFoundError(f"Unable to find shared memory region: '{region}' for input {where}")
        if raw is None:
            if not tensor.HasField("contents"):
                raise InvalidArgumentError(f"unable to find data for input tensor {where} in request.")
            return _typed_data(tensor, where)
        if tensor.HasField("contents"):
            raise InvalidArgumentError(
                f"contents field must not be specified when using raw_input_contents for {where}"
            )
        data = next(raw, None)
        if data is None:
            raise InvalidArgumentError(
                f"unable to find data for input tensor {where} in request: raw_input_contents has fewer entries than "
                "there are inputs"
            )
        return data

    def output_names(self) -> list[str]:
        """Read the names of the wanted outputs."""
        outputs = self._message.outputs
        if not outputs:
            return []
        names = [output.name for output in outputs]
        _refuse_duplicates(names, "output")
        for output in outputs:
            if output.parameters:
                _check_output_parameters(output, self.model_name)
        return names


def _parameters(parameters: Mapping[str, pb.InferParameter]) -> Iterator[Parameter]:
    for key, value in parameters.items():
        kind = value.WhichOneof("parameter_choice")
        yield key, kind, None if kind is None else getattr(value, kind)


def _refuse_duplicates(names: list[str], kind: str) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"{kind} '{name}' already exists in request")
        seen.add(name)


def _check_output_parameters(output: pb.ModelInferRequest.InferRequestedOutputTensor, model: str) -> None:
    where = f"output '{output.name}' for model '{model}'"
    if _SHARED_MEMORY in output.parameters:
        region = output.parameters[_SHARED_MEMORY].string_param
        raise NotFoundError(f"Unable to find shared memory region: '{region}' for {where}")
    if "classification" in output.parameters:
        raise UnimplementedError(f"the 'classification' parameter is not offered ({where})")


def _typed_data(tensor: pb.ModelInferRequest.InferInputTensor, where: str) -> np.ndarray:
    """Return the elements of a typed field as a flat array of the declared datatype."""
    contents = tensor.contents
    filled = [descriptor.name for descriptor, _ in contents.ListFields() if descriptor.name in _TYPED_FIELDS]
    wanted = _FIELD_OF.get(tensor.datatype)
    for name in filled:
        if name != wanted:
            raise InvalidArgumentError(
                f"unexpected explicit tensor data for input tensor {where} in field '{name}', which holds "
                f"{' or '.join(sorted(_TYPED_FIELDS[name]))}, expected datatype '{tensor.datatype}'"
                + (f" in field '{wanted}'" if wanted else ", which has no typed field: send it raw")
            )
    if wanted is None:
        # An empty field holds the elements of an empty tensor, also of one whose datatype has no field of its own.
        return np.empty(0, DATATYPES[tensor.datatype].dtype if tensor.datatype in DATATYPES else np.uint8)
    datatype = DATATYPES[tensor.datatype]
    values = getattr(contents, wanted)
    if wanted == "bytes_contents":
        return raw_tensor.from_elements(list(values), (len(values),))
    return np.array(values, _FIELD_DTYPE.get(wanted, datatype.dtype)).astype(datatype.dtype, copy=False)


def encode_response(response: InferResponse) -> bytes:
    """Return an answer as a serialized ModelInferResponse.

    Every output travels raw, one entry per output at the output's index, as the stock clients index them blindly.

    Raises:
        ResourceExhaustedError: the outputs do not fit a message.
    """
    message = pb.ModelInferResponse(
        model_name=response.model_name, model_version=response.model_version, id=response.id
    )
    if response.signature is not None:
        message.parameters["signature"].string_param = response.signature
    size = 0
    for spec, array in response.outputs:
        raw = raw_tensor.encode(array)
        size += len(raw)
        if size > MAX_MESSAGE_BYTES:
            raise ResourceExhaustedError(
                f"the answer of model '{response.model_name}' is larger than a message can be ({MAX_MESSAGE_BYTES} "
                f"bytes): output {spec} came as {list(array.shape)}. Ask for fewer rows or outputs"
            )
        message.outputs.add(name=spec.name, datatype=spec.datatype.name, shape=array.shape)
        message.raw_output_contents.append(raw)
    return message.SerializeToString()
