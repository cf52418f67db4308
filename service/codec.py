"""ModelInferRequest messages to requests."""

from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Final, TypeAlias

import numpy as np
from google.protobuf.message import DecodeError

from protos import grpc_service_pb2 as pb
from service import raw_tensor
from service.classification import read_class_count
from service.datatypes import DATATYPES
from service.errors import InternalError, InvalidArgumentError
from service.parameters import DEFAULTS, Parameter, RequestParameters, read_parameters
from service.region_parameters import read_window
from service.request import InputTensor, RequestedOutput, name_request
from service.shared_memory import NO_MEMORY, Regions, RequestMemory, Window, WindowName
from service.wire import RequestParts, cut_request

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

_MAX_NAMES: Final = 10_000
"""Inputs, outputs or parameters of one request. A message of a million takes seconds, in which no other is read."""

_Input: TypeAlias = pb.ModelInferRequest.InferInputTensor
_OutputMessage: TypeAlias = pb.ModelInferRequest.InferRequestedOutputTensor


class MessageRequest:
    """A ModelInferRequest, read part by part; see ``service.request.InferRequest``."""

    __slots__ = ("_is_unlike", "_message", "_parts", "_regions", "memory", "serialized")

    def __init__(self, message: bytes | pb.ModelInferRequest, regions: Regions | None = None) -> None:
        """Create the reader of a message; nothing of a serialized one is parsed or copied before it is asked for.

        Args:
            message: the request, serialized or not.
            regions: where shared memory that it names is looked up; None for a caller who may use none and finds none.
        """
        self.memory = NO_MEMORY
        self._regions = regions
        self._parts: RequestParts | None = None
        self._is_unlike = False
        self.serialized: bytes | None
        self._message: pb.ModelInferRequest | None
        self.serialized, self._message = (message, None) if isinstance(message, bytes) else (None, message)

    @property
    def parts(self) -> RequestParts | None:
        """The request in parts, unless its header alone does not tell what it asks for."""
        self._cut()
        return None if self._is_unlike else self._parts

    @property
    def id(self) -> str:
        """The caller's own name for the request."""
        self._cut()
        return self._read().id if self._parts is None else self._parts.id

    @property
    def raw(self) -> Sequence[bytes | memoryview]:
        """The raw data of the inputs, in the order in which the request names them."""
        self._cut()
        return self._read().raw_input_contents if self._parts is None else self._parts.raw

    def _cut(self) -> None:
        """Cut a serialized message, or parse one that is not written as usual.

        Raises:
            InternalError: the bytes are no such message.
        """
        if self._parts is None and self._message is None and self.serialized is not None:
            self._parts = cut_request(self.serialized)
            if self._parts is None:
                self._message = _parse(self.serialized)

    def release(self) -> None:
        """Let go of the data and of shared memory; neither may be touched afterwards."""
        self._message = self._parts = self.serialized = None
        self.memory.release()

    def _window_of(self, name: WindowName) -> Window:
        """Return a window of shared memory, and hold its region until ``release``."""
        self._is_unlike = True  # what it names may be another region the next time
        if self.memory is NO_MEMORY and self._regions is not None:
            self.memory = RequestMemory(self._regions)
        return self.memory.window(name)

    @property
    def model_name(self) -> str:
        """The model's name as sent."""
        return self._read().model_name

    @property
    def model_version(self) -> str:
        """The version as sent."""
        return self._read().model_version

    def _read(self) -> pb.ModelInferRequest:
        """Return the message, without the id and the data where it has parts."""
        self._cut()
        if self._message is None:
            self._message = _parse(self._parts.header if self._parts is not None else b"")
        return self._message

    def parameters(self) -> RequestParameters:
        """Read the request's parameters."""
        parameters = self._read().parameters
        _refuse_masses(parameters, "parameters", self.id)
        return read_parameters(_parameters(parameters)) if parameters else DEFAULTS

    def inputs(self) -> list[InputTensor]:
        """Pair every input with its data.

        The k-th raw entry belongs to the k-th input that is not in shared memory; surplus entries are ignored.
        """
        message = self._read()
        _refuse_masses(message.inputs, "inputs", self.id)
        _refuse_duplicates([tensor.name for tensor in message.inputs], "input", self.id)
        raw = iter(self.raw) if self.raw else None
        return [
            InputTensor(tensor.name, tensor.datatype, tuple(tensor.shape), self._data_of(tensor, raw))
            for tensor in message.inputs
        ]

    def _data_of(
        self, tensor: _Input, raw: Iterator[bytes | memoryview] | None
    ) -> bytes | memoryview | Window | np.ndarray:
        where = f"'{tensor.name}' for model '{self.model_name}'"
        window = self._window(tensor)
        if window is not None:
            if tensor.HasField("contents"):
                raise InvalidArgumentError(
                    f"unexpected 'content' provided when using shared memory for input tensor {where}"
                )
            return window
        if raw is None:
            if not tensor.HasField("contents"):
                raise InvalidArgumentError(f"unable to find data for input tensor {where} in request.")
            self._is_unlike = True  # the header holds the data
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

    def outputs(self) -> list[RequestedOutput]:
        """Read the wanted outputs, and look up where in shared memory their data go."""
        outputs = self._read().outputs
        if not outputs:
            return []
        _refuse_masses(outputs, "outputs", self.id)
        _refuse_duplicates([output.name for output in outputs], "output", self.id)
        return [self._requested(output) if output.parameters else RequestedOutput(output.name) for output in outputs]

    def _requested(self, output: _OutputMessage) -> RequestedOutput:
        _refuse_masses(output.parameters, "parameters of an output", self.id)
        classes = read_class_count(_parameters(output.parameters))
        window_name = read_window(output.name, _parameters(output.parameters))
        if window_name is not None:
            if classes is not None:
                raise InvalidArgumentError("output can't set both 'shared_memory_region' and 'classification'")
            window = self._window_of(window_name)
            self.memory.outputs[output.name] = window
        return RequestedOutput(output.name, classes)

    def _window(self, tensor: _Input) -> Window | None:
        """Return where in shared memory an input's data are, or None when they are in the message."""
        if not tensor.parameters:
            return None
        _refuse_masses(tensor.parameters, "parameters of an input", self.id)
        name = read_window(tensor.name, _parameters(tensor.parameters))
        return None if name is None else self._window_of(name)


def _parse(data: bytes) -> pb.ModelInferRequest:
    try:
        return pb.ModelInferRequest.FromString(data)
    except DecodeError:
        pass
    # Outside, because the first error's traceback would keep the frames of all callers, and these the error.
    raise InternalError("Unable to parse request")


def _parameters(parameters: Mapping[str, pb.InferParameter]) -> Iterator[Parameter]:
    for key, value in parameters.items():
        kind = value.WhichOneof("parameter_choice")
        yield key, kind, None if kind is None else getattr(value, kind)


def _refuse_masses(things: Sized, kind: str, request_id: str) -> None:
    if len(things) > _MAX_NAMES:
        raise InvalidArgumentError(f"{name_request(request_id)} {len(things)} {kind}; at most {_MAX_NAMES} are allowed")


def _refuse_duplicates(names: list[str], kind: str, request_id: str) -> None:
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidArgumentError(f"{name_request(request_id)} {kind} '{name}' already exists in request")
        seen.add(name)


def _typed_data(tensor: _Input, where: str) -> np.ndarray:
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
