import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protos import grpc_service_pb2 as pb
from service import codec, raw_tensor
from service.datatypes import DATATYPES
from service.errors import InvalidArgumentError, NotFoundError
from service.parameters import DEFAULTS, RequestParameters
from service.request import RequestedOutput
from tests.service.tensors import arrays, deterministic

every_datatype = pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
FIELDS = {
    "BOOL": "bool_contents",
    **dict.fromkeys(["INT8", "INT16", "INT32"], "int_contents"),
    "INT64": "int64_contents",
    **dict.fromkeys(["UINT8", "UINT16", "UINT32"], "uint_contents"),
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


def request(*inputs, outputs=(), raw=(), **fields):
    """Build a request; an input is name, datatype, shape and the typed fields, or None for no ``contents``."""
    message = pb.ModelInferRequest(model_name="m", raw_input_contents=raw, **fields)
    for name, datatype, shape, contents in inputs:
        tensor = message.inputs.add(name=name, datatype=datatype, shape=shape)
        if contents is not None:
            tensor.contents.SetInParent()
            for field, values in contents.items():
                getattr(tensor.contents, field).extend(values)
    for name in outputs:
        message.outputs.add(name=name)
    return message


def read(message):
    return codec.MessageRequest(message).inputs()


def refusal(call, kind=InvalidArgumentError):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


@pytest.mark.parametrize("name", FIELDS)
@settings(deterministic, max_examples=50)
@given(draw=st.data())
def test_typed_contents_mean_the_same_as_raw_ones(name, draw):
    datatype = DATATYPES[name]
    array = draw.draw(arrays(datatype))
    values = array.ravel().tolist()

    (typed,) = read(request(("x", name, array.shape, {FIELDS[name]: values})))
    (raw,) = read(request(("x", name, array.shape, None), raw=[raw_tensor.encode(array)]))

    decoded = [raw_tensor.decode(datatype, tensor.shape, tensor.data) for tensor in (typed, raw)]
    np.testing.assert_array_equal(*decoded, strict=True)


@pytest.mark.parametrize(
    ("name", "field", "values", "kept"),
    [
        ("INT8", "int_contents", [300, 127, -129, -1], [44, 127, 127, -1]),
        ("UINT8", "uint_contents", [256, 255, 2**32 - 1], [0, 255, 255]),
        ("INT16", "int_contents", [70000, -32769], [4464, 32767]),
        ("UINT16", "uint_contents", [65536, 65537], [0, 1]),
    ],
)
def test_a_value_too_wide_for_its_datatype_keeps_its_low_bytes(name, field, values, kept):
    (tensor,) = read(request(("x", name, [len(values)], {field: values})))

    assert tensor.data.tolist() == kept
    assert tensor.data.dtype == DATATYPES[name].dtype


# What a real Triton refuses; the text names the input, the model and the declared datatype, as there.
@pytest.mark.parametrize(
    ("datatype", "contents"),
    [
        ("INT32", {"int64_contents": [1, 2]}),
        ("INT64", {"int_contents": [1, 2]}),
        ("FP32", {"fp64_contents": [1, 2]}),
        ("FP64", {"fp32_contents": [1, 2]}),
        ("UINT8", {"int_contents": [1, 2]}),
        ("BOOL", {"int_contents": [1, 0]}),
        ("BYTES", {"int_contents": [1, 0]}),
        ("INT32", {"bytes_contents": [b"abcd"]}),
        ("INT32", {"int_contents": [1, 2], "fp32_contents": [1, 2]}),
        ("FLOAT", {"fp32_contents": [1, 2]}),
        ("fp32", {"fp32_contents": [1, 2]}),
        ("FP16", {"fp32_contents": [1]}),
        ("BF16", {"fp32_contents": [1]}),
        ("FP16", {"bytes_contents": [b"ab"]}),
    ],
)
def test_a_typed_field_of_another_datatype_is_refused(datatype, contents):
    text = refusal(lambda: read(request(("x", datatype, [1, 2], contents))))

    assert text.startswith("unexpected explicit tensor data for input tensor 'x' for model 'm'")
    assert f"expected datatype '{datatype}'" in text


@pytest.mark.parametrize(
    ("datatype", "contents", "text"),
    [
        ("INT32", {"int_contents": [1, 2]}, "Expected 12, got 8"),
        ("INT32", {"int_contents": [1, 2, 3, 4]}, "Expected 12, got 16"),
        ("INT32", {}, "Expected 12, got 0"),
        ("BYTES", {}, "expected 3 string elements, got 0"),
        ("BYTES", {"bytes_contents": [b"a"]}, "expected 3 string elements, got 1"),
        ("BYTES", {"bytes_contents": [b"a"] * 4}, "expected 3 string elements, got 4"),
        ("FP16", {}, "Expected 6, got 0"),
    ],
)
def test_a_typed_field_of_another_size_is_refused_once_the_shape_is_known(datatype, contents, text):
    (tensor,) = read(request(("x", datatype, [1, 3], contents)))

    assert text in refusal(lambda: raw_tensor.decode(DATATYPES[datatype], tensor.shape, tensor.data))


@every_datatype
def test_empty_contents_are_the_data_of_an_empty_tensor(datatype):
    (tensor,) = read(request(("x", datatype.name, [1, 0], {})))

    array = raw_tensor.decode(datatype, tensor.shape, tensor.data)
    assert (array.dtype, array.shape) == (datatype.dtype, (1, 0))


def test_empty_contents_of_an_unknown_datatype_are_left_to_the_check_of_datatypes():
    (tensor,) = read(request(("x", "FLOAT", [1, 0], {})))

    assert (tensor.datatype, tensor.data.size) == ("FLOAT", 0)


@pytest.mark.parametrize("shape", [[1, 0], [1, 2]])
def test_an_input_without_data_is_refused(shape):
    text = refusal(lambda: read(request(("x", "FP32", shape, None))))

    assert text == "unable to find data for input tensor 'x' for model 'm' in request."


@pytest.mark.parametrize(
    ("first", "second", "raw", "named"),
    [
        ({"int_contents": [1]}, None, [b"abcd"], "a"),
        (None, {"int_contents": [1]}, [b"abcd"], "b"),
        ({"int_contents": [1]}, {"int_contents": [1]}, [b"abcd", b"efgh"], "a"),
        ({}, None, [b"abcd", b"efgh"], "a"),
    ],
    ids=["first_typed", "second_typed", "both_ways", "empty_contents"],
)
def test_raw_and_typed_contents_cannot_be_mixed(first, second, raw, named):
    message = request(("a", "INT32", [1], first), ("b", "INT32", [1], second), raw=raw)

    assert refusal(lambda: read(message)) == (
        f"contents field must not be specified when using raw_input_contents for '{named}' for model 'm'"
    )


def test_raw_entries_belong_to_inputs_by_position_and_surplus_is_ignored():
    message = request(("a", "INT32", [1], None), ("b", "INT32", [1], None), raw=[b"aaaa", b"bbbb", b"surplus"])

    assert [(tensor.name, tensor.data) for tensor in read(message)] == [("a", b"aaaa"), ("b", b"bbbb")]


def test_too_few_raw_entries_name_the_input_that_has_none():
    message = request(("a", "INT32", [1], None), ("b", "INT32", [1], None), raw=[b"aaaa"])

    assert "unable to find data for input tensor 'b' for model 'm'" in refusal(lambda: read(message))


def test_names_datatypes_and_shapes_come_as_they_were_sent():
    message = request(("\u017c", "float", [-1, -(2**63), 2**63 - 1], None), raw=[b""])

    (tensor,) = read(message)
    assert (tensor.name, tensor.datatype, tensor.shape) == ("\u017c", "float", (-1, -(2**63), 2**63 - 1))


def test_a_request_without_inputs_is_read():
    assert read(request()) == []


@pytest.mark.parametrize("names", [["a", "a"], ["b", "a", "c", "a", "b"]], ids=["twice", "first_of_several"])
def test_an_input_given_twice_is_refused(names):
    message = request(*[(name, "INT32", [1], {"int_contents": [1]}) for name in names])

    assert refusal(lambda: read(message)) == "[request id: <id_unknown>] input 'a' already exists in request"


def test_an_output_asked_for_twice_is_refused():
    message = codec.MessageRequest(request(outputs=["y", "z", "y"]))

    assert refusal(message.outputs) == "[request id: <id_unknown>] output 'y' already exists in request"


@pytest.mark.timeout(20)
def test_a_duplicate_behind_very_many_names_is_found_in_linear_time():
    names = [str(number) for number in range(9_999)]
    message = codec.MessageRequest(request(outputs=[*names, names[-1]]))

    assert "already exists" in refusal(message.outputs)


MANY = [str(number) for number in range(10_001)]


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (request(*[(name, "INT32", [1], {}) for name in MANY]), "inputs"),
        (request(outputs=MANY), "outputs"),
        (pb.ModelInferRequest(parameters={name: pb.InferParameter(int64_param=1) for name in MANY}), "parameters"),
    ],
    ids=["inputs", "outputs", "parameters"],
)
def test_masses_are_refused_before_they_are_read(message, kind):
    asked = codec.MessageRequest(message)

    assert refusal(getattr(asked, kind)) == f"[request id: <id_unknown>] 10001 {kind}; at most 10000 are allowed"


def test_masses_of_parameters_of_one_tensor_are_refused():
    message = request(("x", "INT32", [1], {"int_contents": [1]}), outputs=["y"])
    for tensor in (message.inputs[0], message.outputs[0]):
        for name in MANY:
            tensor.parameters[name].int64_param = 1
    asked = codec.MessageRequest(message)

    assert "10001 parameters of an input" in refusal(asked.inputs)
    assert "10001 parameters of an output" in refusal(asked.outputs)


def test_wanted_outputs_come_in_the_requests_order():
    asked = codec.MessageRequest(request(outputs=["z", "", "a"])).outputs()

    assert asked == [RequestedOutput("z"), RequestedOutput(""), RequestedOutput("a")]
    assert codec.MessageRequest(request()).outputs() == []


@pytest.mark.parametrize("kind", ["input", "output"])
def test_a_region_of_shared_memory_that_does_not_exist_is_not_found(kind):
    message = request(("x", "INT32", [1], None), outputs=["x"])
    tensor = message.inputs[0] if kind == "input" else message.outputs[0]
    tensor.parameters["shared_memory_region"].string_param = "region"
    tensor.parameters["shared_memory_byte_size"].int64_param = 4
    reader = codec.MessageRequest(message)

    text = refusal(reader.inputs if kind == "input" else reader.outputs, NotFoundError)

    assert text == "Unable to find shared memory region: 'region'"


def test_an_output_may_be_asked_for_as_classes():
    message = request(outputs=["x", "y"])
    message.outputs[0].parameters["classification"].int64_param = 3

    assert codec.MessageRequest(message).outputs() == [RequestedOutput("x", classes=3), RequestedOutput("y")]


def test_classes_do_not_go_to_shared_memory_whether_the_region_exists_or_not():
    message = request(outputs=["x"])
    message.outputs[0].parameters["classification"].int64_param = 3
    message.outputs[0].parameters["shared_memory_region"].string_param = "region"
    message.outputs[0].parameters["shared_memory_byte_size"].int64_param = 4

    text = refusal(codec.MessageRequest(message).outputs)

    assert text == "output can't set both 'shared_memory_region' and 'classification'"


def test_other_parameters_of_tensors_are_ignored_whatever_their_type():
    message = request(("x", "INT32", [1], None), outputs=["x"], raw=[b"abcd"])
    for tensor in (message.inputs[0], message.outputs[0]):
        tensor.parameters["binary_data"].bool_param = True
        tensor.parameters["binary_data_size"].uint64_param = 4
        tensor.parameters["unset"].SetInParent()

    assert [tensor.data for tensor in read(message)] == [b"abcd"]
    assert codec.MessageRequest(message).outputs() == [RequestedOutput("x")]


@pytest.mark.parametrize(
    ("key", "field", "value", "expected"),
    [
        ("signature", "string_param", "embed", RequestParameters(signature="embed")),
        ("priority", "uint64_param", 2**64 - 1, RequestParameters(priority=2**64 - 1)),
        ("timeout", "int64_param", -1, RequestParameters(timeout_us=-1)),
        ("custom", "double_param", 0.5, DEFAULTS),
    ],
)
def test_parameters_of_the_request_are_read(key, field, value, expected):
    message = request()
    setattr(message.parameters[key], field, value)

    assert codec.MessageRequest(message).parameters() == expected


def test_a_request_without_parameters_has_the_defaults():
    assert codec.MessageRequest(request()).parameters() == DEFAULTS


def test_a_parameter_without_a_value_is_refused():
    message = request()
    message.parameters["custom"].SetInParent()

    assert "'custom'" in refusal(codec.MessageRequest(message).parameters)


def test_a_zero_value_of_a_parameter_is_a_value():
    message = request()
    message.parameters["custom"].bool_param = False
    message.parameters["timeout"].int64_param = 0

    assert codec.MessageRequest(message).parameters() == DEFAULTS


def test_name_version_and_id_are_the_messages():
    reader = codec.MessageRequest(pb.ModelInferRequest(model_name="m:f", model_version=" 01", id="\u017c\n"))

    assert (reader.model_name, reader.model_version, reader.id) == ("m:f", " 01", "\u017c\n")
