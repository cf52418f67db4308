"""Answers to serialized ModelInferResponse messages."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

import numpy as np

from protos import grpc_service_pb2 as pb
from service import raw_tensor
from service.datatypes import BYTES
from service.errors import InternalError, ResourceExhaustedError
from service.request import AnswerForm, InferResponse
from service.shared_memory import Window
from service.signature import TensorSpec
from service.wire import length_delimited

# Protobuf's limit is 2^31-1 for the whole message; the rest is kept for names and shapes.
MAX_MESSAGE_BYTES: Final = 2**31 - 2**20

_ID: Final = pb.ModelInferResponse.ID_FIELD_NUMBER
_RAW: Final = pb.ModelInferResponse.RAW_OUTPUT_CONTENTS_FIELD_NUMBER

_SMALL_BYTES: Final = 4096
"""Up to this size a copy costs less than a view."""

_HEADS_KEPT: Final = 64
"""Of one form, by the shapes of its outputs."""


def encode_response(response: InferResponse, windows: Mapping[str, Window] = MappingProxyType({})) -> bytes:
    """Return an answer as a serialized ModelInferResponse, and write outputs to shared memory.

    Every output travels raw, one entry per output at the output's index, as the stock clients index them blindly. The
    entry of an output in shared memory is empty. Nothing is written there unless every output fits its place.

    The fields are put one behind the other as the wire has them, since a message object would copy the data twice more;
    what answers of the same form have in common is encoded once.

    Args:
        response: the answer.
        windows: by name of an output, where its data go.

    Raises:
        ResourceExhaustedError: the outputs do not fit a message.
        InternalError: an output does not fit its window.
    """
    head, leads = _head(response.form, response.arrays)
    if leads and not windows:
        return _encode_small(response, leads)
    parts: list[bytes | memoryview] = [head]
    if response.id:
        encoded = response.id.encode()
        parts += (length_delimited(_ID, len(encoded)), encoded)
    size = 0
    writes: list[tuple[Window, memoryview]] = []
    for spec, array in response.outputs:
        window = windows.get(spec.name) if windows else None
        if window is None:
            raw = raw_tensor.encode_view(array) if array.nbytes > _SMALL_BYTES else raw_tensor.encode(array)
        else:
            raw = b""
            writes.append((window, _fitting(spec, array, window)))
        size += len(raw)
        if size > MAX_MESSAGE_BYTES:
            raise ResourceExhaustedError(
                f"the answer of model '{response.form.model_name}' is larger than a message can be "
                f"({MAX_MESSAGE_BYTES} bytes): output {spec} came as {list(array.shape)}. Ask for fewer rows or outputs"
            )
        parts += (length_delimited(_RAW, len(raw)), raw)
    for window, data in writes:
        window.write(data)
    return b"".join(parts)


def _encode_small(response: InferResponse, leads: Sequence[bytes]) -> bytes:
    """Return an answer with few data, as ``_leads`` says: nothing of it needs to be checked or measured."""
    parts: list[bytes] = []
    for lead, array in zip(leads, response.arrays, strict=True):
        parts += (lead, array.tobytes())
    if response.id:
        encoded = response.id.encode()
        parts += (length_delimited(_ID, len(encoded)), encoded)
    return b"".join(parts)


def _head(form: AnswerForm, arrays: Sequence[np.ndarray]) -> tuple[bytes, Sequence[bytes]]:
    """Return all fields of an answer but the id and the data, and what stands before the data of each output.

    The latter is empty unless the outputs are small and lie in memory as on the wire; the head is part of its first.
    """
    shapes = tuple([array.shape for array in arrays])
    made: tuple[bytes, Sequence[bytes]] | None = form.heads.get(shapes)
    if made is None:
        message = pb.ModelInferResponse(model_name=form.model_name, model_version=form.model_version)
        if form.signature is not None:
            message.parameters["signature"].string_param = form.signature
        for spec, shape in zip(form.outputs, shapes, strict=True):
            message.outputs.add(name=spec.name, datatype=spec.datatype.name, shape=shape)
        head = message.SerializeToString()
        if len(form.heads) >= _HEADS_KEPT:
            form.heads.clear()
        made = form.heads[shapes] = head, _leads(head, arrays)
    return made


def _leads(head: bytes, arrays: Sequence[np.ndarray]) -> Sequence[bytes]:
    are_small = sum(array.nbytes for array in arrays) <= min(_SMALL_BYTES, MAX_MESSAGE_BYTES)
    if not arrays or not are_small or any(array.dtype == BYTES.dtype for array in arrays):
        return ()
    leads = [length_delimited(_RAW, array.nbytes) for array in arrays]
    return [head + leads[0], *leads[1:]]


def _fitting(spec: TensorSpec, array: np.ndarray, window: Window) -> memoryview:
    """Return the raw form of an output that goes to shared memory."""
    data = raw_tensor.encode_view(array)
    if len(data) > len(window):
        raise InternalError(
            f"shared memory size specified with the request for output '{spec.name}' ({len(window)} bytes) should be "
            f"at least {len(data)} bytes to hold the results: {spec} came as {list(array.shape)}"
        )
    return data
