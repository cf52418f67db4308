"""Hypothesis strategies for ModelInferRequest: right requests, requests with faults, and bytes that are no request.

What a request may ask for is bounded: the signatures that sleep or answer as much as they are told to are left out.
"""

from dataclasses import dataclass

from hypothesis import strategies as st
from tritonclient.grpc import service_pb2 as pb

REGIONS = ("signet_fuzz_in", "signet_fuzz_out")
REGION_BYTES = 4096

OPEN = None
FLOATS = (("x", "FP32", (OPEN, 4)),)
WIDTHS = {
    "BOOL": 1,
    "UINT8": 1,
    "UINT16": 2,
    "UINT32": 4,
    "UINT64": 8,
    "INT8": 1,
    "INT16": 2,
    "INT32": 4,
    "INT64": 8,
    "FP16": 2,
    "BF16": 2,
    "FP32": 4,
    "FP64": 8,
}
CONTENTS = {
    "bool_contents": ("BOOL",),
    "int_contents": ("INT8", "INT16", "INT32"),
    "int64_contents": ("INT64",),
    "uint_contents": ("UINT8", "UINT16", "UINT32"),
    "uint64_contents": ("UINT64",),
    "fp32_contents": ("FP32",),
    "fp64_contents": ("FP64",),
    "bytes_contents": ("BYTES",),
}


@dataclass(frozen=True)
class Entry:
    """A signature of a served model: its inputs with their datatypes and shapes, and its outputs."""

    model: str
    signature: str
    inputs: tuple = FLOATS
    outputs: tuple = ("y",)


SIGNATURES = (
    Entry("kit", "serving_default"),
    Entry("kit", "embed", outputs=("z",)),
    Entry("kit", "wide", (("x", "FP32", (OPEN, 6)),)),
    Entry("kit", "tokens", (("ids", "INT64", (OPEN, OPEN)),), ("total",)),
    Entry("kit", "text", (("text", "BYTES", (OPEN,)),), ("text",)),
    Entry("kit", "text0", (("text", "BYTES", ()),), ("text",)),
    Entry("kit", "info", (), ("build",)),
    Entry("kit", "mean", outputs=("m",)),
    Entry("kit", "scale", (*FLOATS, ("k", "FP32", ()))),
    Entry("kit", "filter", outputs=("kept",)),
    Entry("kit", "picky"),
    Entry("kit", "many", outputs=("out_1", "out_2", "out_12")),
    Entry("kit", "turn", (("t", "FP32", (OPEN, 3, 5)),), ("t",)),
    *(Entry("kit", f"id_{datatype.lower()}", (("v", datatype, (OPEN,)),), ("v",)) for datatype in (*WIDTHS, "BYTES")),
    Entry("module", "threshold", (), ("threshold",)),
    Entry("module", "add", (("a", "FP32", ()), ("b", "FP32", ())), ("sum",)),
    Entry("module", "any_rank", (("v", "FP32", (OPEN, OPEN)),), ("v", "rank")),
    Entry("several", "find", (("word", "BYTES", (OPEN,)),), ("id",)),
    Entry("counter", "read", (), ("count",)),
)

_texts = st.text(max_size=12)
_integers = st.sampled_from([0, 1, -1, 2, 3, 64, 65, 2**31 - 1, 2**31, 2**62, -(2**63), 2**63 - 1]) | st.integers(
    -(2**63), 2**63 - 1
)
_parameters = st.one_of(
    _integers.map(lambda number: pb.InferParameter(int64_param=number)),
    st.integers(0, 2**64 - 1).map(lambda number: pb.InferParameter(uint64_param=number)),
    st.booleans().map(lambda truth: pb.InferParameter(bool_param=truth)),
    st.floats().map(lambda number: pb.InferParameter(double_param=number)),
    st.sampled_from([*REGIONS, "embed", "nope", ""]).map(lambda text: pb.InferParameter(string_param=text)),
    _texts.map(lambda text: pb.InferParameter(string_param=text)),
    st.just(pb.InferParameter()),
)
_request_keys = st.sampled_from(
    [
        "signature",
        "priority",
        "timeout",
        "sequence_id",
        "sequence_start",
        "sequence_end",
        "triton_enable_empty_final_response",
        "triton_other",
        "binary_data_output",
        "headers",
    ]
)
_tensor_keys = st.sampled_from(
    [
        "shared_memory_region",
        "shared_memory_byte_size",
        "shared_memory_offset",
        "classification",
        "binary_data",
        "binary_data_size",
    ]
)
_sizes = st.integers(0, 3) | _integers
_shapes = st.one_of(
    st.lists(_sizes, max_size=5),
    st.lists(st.sampled_from([1, 2, 0]), min_size=30, max_size=70),
    st.just([2**62] * 50_000),
)


@st.composite
def _raw(draw, datatype, shape):
    count = 1
    for size in shape:
        count *= size
    if datatype == "BYTES":
        elements = draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
        return b"".join(len(element).to_bytes(4, "little") + element for element in elements)
    size = WIDTHS[datatype] * count
    # Most bytes of a tensor only have to differ between requests.
    return (draw(st.binary(min_size=8, max_size=16)) * (size // 8 + 1))[:size]


@st.composite
def _right(draw):
    """A request without fault for one of the signatures, which it names in one of three ways."""
    entry = draw(st.sampled_from(SIGNATURES))
    message = pb.ModelInferRequest(model_name=entry.model, id=draw(_texts))
    way = draw(st.sampled_from(["parameter", "alias", "both"]))
    if way != "parameter":
        message.model_name += ":" + entry.signature
    if way != "alias":
        message.parameters["signature"].string_param = entry.signature
    rows = draw(st.integers(1, 9) | st.sampled_from([0, 64, 65, 130]))
    width = draw(st.integers(1, 4))
    for name, datatype, dims in entry.inputs:
        shape = [(width if axis else rows) if size is OPEN else size for axis, size in enumerate(dims)]
        message.inputs.add(name=name, datatype=datatype, shape=shape)
        message.raw_input_contents.append(draw(_raw(datatype, shape)))
    for name in draw(st.lists(st.sampled_from(entry.outputs), max_size=2, unique=True)):
        message.outputs.add(name=name)
    return message


def _odd_name(draw, message):
    odd = st.sampled_from(
        ["", ":", "kit:", ":kit", "kit::embed", "kit:nope", "nope", "module:add", "kit\n", "kit" + ":" * 100_000]
    )
    message.model_name = draw(odd | _texts)


def _odd_version(draw, message):
    message.model_version = draw(st.sampled_from(["1", "2", "0", "-1", "01", "9" * 30, "1 ", "\u0661", "v1"]) | _texts)


def _odd_parameter(draw, message):
    message.parameters[draw(_request_keys | _texts)].CopyFrom(draw(_parameters))


def _input(draw, message):
    """Return one of the inputs, a new one if there are none."""
    return draw(st.sampled_from(list(message.inputs))) if message.inputs else message.inputs.add(name="x")


def _odd_shape(draw, message):
    tensor = _input(draw, message)
    if tensor.shape and draw(st.booleans()):
        tensor.shape[draw(st.integers(0, len(tensor.shape) - 1))] = draw(_sizes)
    else:
        tensor.shape[:] = draw(_shapes)


def _odd_datatype(draw, message):
    _input(draw, message).datatype = draw(st.sampled_from([*WIDTHS, "BYTES", "", "fp32", "FP8"]) | _texts)


def _odd_tensor_name(draw, message):
    _input(draw, message).name = draw(st.sampled_from(["x", "y", "v", "k", ""]) | _texts)


def _odd_raw(draw, message):
    """Cut, lengthen, drop or add the raw bytes of an input."""
    raw = message.raw_input_contents
    if not raw or draw(st.booleans()):
        raw.append(draw(st.binary(max_size=70)))
        return
    index = draw(st.integers(0, len(raw) - 1))
    if draw(st.booleans()):
        del raw[index]
    else:
        raw[index] = raw[index][: draw(st.integers(0, len(raw[index])))] + draw(st.binary(max_size=9))


def _typed(draw, message):
    """Send an input in a typed field, mostly in the one of its datatype, with and without the raw bytes."""
    tensor = _input(draw, message)
    right = [field for field, datatypes in CONTENTS.items() if tensor.datatype in datatypes]
    field = draw(st.sampled_from([*right * 9, *CONTENTS]))
    count = draw(st.integers(0, 40))
    value = {
        "bool_contents": st.booleans(),
        "bytes_contents": st.binary(max_size=9),
        "fp32_contents": st.floats(width=32),
        "fp64_contents": st.floats(),
        "int_contents": st.integers(-(2**31), 2**31 - 1),
        "uint_contents": st.integers(0, 2**32 - 1),
        "int64_contents": st.integers(-(2**63), 2**63 - 1),
        "uint64_contents": st.integers(0, 2**64 - 1),
    }[field]
    getattr(tensor.contents, field).extend([draw(value)] * count)
    if draw(st.integers(0, 3)):
        del message.raw_input_contents[:]
        for axis in range(len(tensor.shape)):
            tensor.shape[axis] = 1 if axis else count


def _other_inputs(draw, message):
    """Say an input twice, leave one out, or add a hundred."""
    inputs = message.inputs
    change = draw(st.sampled_from(["again", "less", "many"]))
    if change == "many":
        for number in range(100):
            inputs.add(name=f"x{number}", datatype="FP32", shape=[1])
    elif inputs and change == "less":
        del inputs[-1]
    elif inputs:
        inputs.add().CopyFrom(inputs[0])


def _odd_output(draw, message):
    name = draw(st.sampled_from(["y", "z", "v", "x", "nope", ""]) | _texts)
    for key, value in draw(st.dictionaries(_tensor_keys | _texts, _parameters, max_size=3)).items():
        message.outputs.add(name=name).parameters[key].CopyFrom(value)


def _region(draw, tensor):
    parameters = tensor.parameters
    parameters["shared_memory_region"].string_param = draw(st.sampled_from([*REGIONS * 4, "nope"]))
    sizes = st.integers(0, 160) | _integers
    parameters["shared_memory_byte_size"].int64_param = draw(sizes)
    if draw(st.booleans()):
        parameters["shared_memory_offset"].int64_param = draw(st.integers(0, REGION_BYTES) | _integers)


def _input_in_region(draw, message):
    """Read an input from shared memory, mostly with the right number of bytes."""
    tensor = _input(draw, message)
    _region(draw, tensor)
    if message.raw_input_contents and draw(st.integers(0, 3)):
        index = list(message.inputs).index(tensor)
        if index < len(message.raw_input_contents):
            tensor.parameters["shared_memory_byte_size"].int64_param = len(message.raw_input_contents[index])
            del message.raw_input_contents[index]


def _output_in_region(draw, message):
    if not message.outputs:
        message.outputs.add(name=draw(st.sampled_from(["y", "z", "v", "text", "total"])))
    _region(draw, draw(st.sampled_from(list(message.outputs))))


def _classes(draw, message):
    for output in message.outputs or [message.outputs.add(name=draw(st.sampled_from(["y", "z", "v"])))]:
        output.parameters["classification"].int64_param = draw(st.integers(1, 5) | _integers)


def _odd_tensor_parameter(draw, message):
    _input(draw, message).parameters[draw(_tensor_keys | _texts)].CopyFrom(draw(_parameters))


FAULTS = (
    _odd_name,
    _odd_version,
    _odd_parameter,
    _odd_shape,
    _odd_datatype,
    _odd_tensor_name,
    _odd_raw,
    _typed,
    _other_inputs,
    _odd_output,
    _input_in_region,
    _output_in_region,
    _classes,
    _odd_tensor_parameter,
)


@st.composite
def messages(draw):
    """A request that is right but for up to four faults."""
    message = draw(_right())
    for fault in draw(st.lists(st.sampled_from(FAULTS), max_size=4)):
        fault(draw, message)
    return message


@st.composite
def _damaged(draw):
    """The bytes of a request, a few of them changed, cut or put in twice."""
    data = bytearray(draw(messages()).SerializeToString())
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        stop = draw(st.integers(start, min(len(data), start + 9)))
        data[start:stop] = draw(st.one_of(st.binary(max_size=5), st.just(bytes(data[start:stop] * 2))))
    return bytes(data)


def payloads():
    """The bytes of a call: a request, a damaged one, or anything."""
    right = messages().map(pb.ModelInferRequest.SerializeToString)
    return st.one_of(right, right, right, _damaged(), st.binary(max_size=200))
