"""Inference on windows of shared memory: real regions and the whole service over models made of NumPy functions."""

from functools import partial

import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from service.caller import Caller
from service.datatypes import DATATYPES
from service.errors import InternalError, InvalidArgumentError, NotFoundError, SignetError
from service.system_region import SystemRegion
from tests.fakes import FakeServable, signature, spec
from tests.memory_objects import memory_objects
from tests.service.serving import Answer, kit, message, rows, serving
from tests.service.tensors import framed

LOCAL, REMOTE = Caller(is_local=True), Caller(is_local=False)
ROW = rows(1).nbytes


@pytest.fixture
def make():
    with memory_objects() as making:
        yield making


@pytest.fixture
def source(make):
    return make(4096)


@pytest.fixture
def target(make):
    return make(4096)


def register(served, name, memory, byte_size=4096):
    served.regions.register(name, partial(SystemRegion, name, memory.key, 0, byte_size))


def is_unused(served):
    """Whether no request uses a region; regions that are registered stay open."""
    return repr(served.regions).endswith("in_use=0)")


def place(tensor, region, byte_size, offset=None):
    """Say that the data of a tensor of a request are in a region."""
    tensor.parameters["shared_memory_region"].string_param = region
    tensor.parameters["shared_memory_byte_size"].int64_param = byte_size
    if offset is not None:
        tensor.parameters["shared_memory_offset"].int64_param = offset


def request(shape=(1, 2), *, datatype="FP32", name="x", source=None, outputs=None, **parameters):
    """Return a request of one input; ``source`` is where its data are, ``outputs`` where they go, by name."""
    made = message({}, **parameters)
    place(made.inputs.add(name=name, datatype=datatype, shape=shape), *(source or ("in", ROW)))
    for output, where in (outputs or {}).items():
        place(made.outputs.add(name=output), *where)
    return made


def start(served, sent, caller=LOCAL):
    answer = Answer()
    served.answers.append(answer)
    return answer, served.servicer.infer(sent.SerializeToString(), None, answer, caller)


def infer(served, sent, caller=LOCAL):
    """Send a request and return its answer; then no region is in use."""
    result = start(served, sent, caller)[0].wait()
    assert is_unused(served)
    return result if isinstance(result, SignetError) else pb.ModelInferResponse.FromString(result)


# Inputs and outputs. ---------------------------------------------------------------------------------------------


def test_inputs_come_from_a_region_and_outputs_go_to_one(source, target):
    source.write(rows(1, 2, 3), offset=24)
    with serving(kit()) as served:
        register(served, "in", source)
        register(served, "out", target)
        response = infer(served, request((3, 2), source=("in", 24, 24), outputs={"y": ("out", 100, 8)}))

    (output,) = response.outputs
    assert (output.name, output.datatype, list(output.shape), dict(output.parameters)) == ("y", "FP32", [3, 2], {})
    assert list(response.raw_output_contents) == [b""]
    assert target.content() == bytes(8) + (rows(1, 2, 3) * 2).tobytes() + bytes(4096 - 32)


def test_only_outputs_that_name_a_region_go_there(source, target):
    source.write(rows(4))
    with serving(_halves()) as served:
        register(served, "in", source)
        register(served, "out", target)
        sent = request(outputs={"low": ("out", 8)})
        sent.outputs.add(name="high")
        response = infer(served, sent)

    assert [output.name for output in response.outputs] == ["high", "low"]
    assert list(response.raw_output_contents) == [(rows(4) + 100).tobytes(), b""]
    assert target.content()[:8] == rows(4).tobytes()


def test_two_outputs_share_a_region(source, target):
    source.write(rows(4))
    with serving(_halves()) as served:
        register(served, "in", source)
        register(served, "out", target)
        infer(served, request(outputs={"low": ("out", 8, 8), "high": ("out", 8, 0)}))

    assert target.content()[:24] == (rows(4) + 100).tobytes() + rows(4).tobytes() + bytes(8)


def test_a_region_may_be_input_and_output_at_once(source):
    source.write(rows(1, 2))
    with serving(kit()) as served:
        register(served, "in", source)
        infer(served, request((2, 2), source=("in", 16), outputs={"y": ("in", 16, 4)}))

    assert source.content()[4:20] == (rows(1, 2) * 2).tobytes()


def test_strings_in_regions_are_framed_as_on_the_wire(source, target):
    raw = framed([b"hello", b"", b"w\0", b"\xff"])
    source.write_bytes(raw, 5)
    with serving(kit()) as served:
        register(served, "in", source)
        register(served, "out", target)
        sent = request((4,), datatype="BYTES", name="s", source=("in", len(raw), 5), outputs={"s": ("out", 64)})
        sent.parameters["signature"].string_param = "text"
        assert list(infer(served, sent).raw_output_contents) == [b""]

    assert target.content()[:64] == raw + bytes(64 - len(raw))


def test_raw_entries_belong_to_the_inputs_that_are_in_no_region(source):
    source.write_bytes(np.float32(7).tobytes())
    with serving(kit()) as served:
        register(served, "in", source)
        sent = message({"x": rows(3)}, signature="scale")
        place(sent.inputs.add(name="k", datatype="FP32", shape=[]), "in", 4)
        first, second = sent.inputs[1], sent.inputs[0]
        del sent.inputs[:]
        sent.inputs.extend([first, second])

        assert infer(served, sent).raw_output_contents[0] == (rows(3) * 2).tobytes()


def test_typed_contents_may_stand_beside_a_region_but_not_in_the_same_input(source):
    source.write_bytes(np.float32(7).tobytes())
    with serving(kit()) as served:
        register(served, "in", source)
        sent = request((), name="k", source=("in", 4), signature="scale")
        sent.inputs.add(name="x", datatype="FP32", shape=[1, 2]).contents.fp32_contents.extend([5, 6])
        assert infer(served, sent).raw_output_contents[0] == np.array([10, 12], np.float32).tobytes()

        sent.inputs[0].contents.SetInParent()
        assert "unexpected 'content' provided when using shared memory for input tensor 'k'" in str(infer(served, sent))


def test_no_rows_need_no_bytes(source, target):
    with serving(kit()) as served:
        register(served, "in", source)
        register(served, "out", target)
        response = infer(served, request((0, 2), source=("in", 0), outputs={"y": ("out", 0)}))

    assert list(response.outputs[0].shape) == [0, 2]
    assert target.content() == bytes(4096)


@pytest.mark.parametrize("datatype", ["BOOL", "FP16", "BF16", "UINT64", "INT8"])
def test_outputs_are_written_in_their_raw_form_also_from_strided_memory(source, target, datatype):
    array = np.array([[1, 0], [1, 1]]).astype(DATATYPES[datatype].dtype)
    source.write_bytes(array.tobytes())
    mirror = FakeServable(
        (signature("f", [spec("x", datatype)], [spec("y", datatype)]), lambda inputs: {"y": inputs["x"][:, ::-1]})
    )
    with serving(mirror) as served:
        register(served, "in", source)
        register(served, "out", target)
        sent = request((2, 2), datatype=datatype, source=("in", array.nbytes), outputs={"y": ("out", 4096)})
        assert list(infer(served, sent).raw_output_contents) == [b""]

    assert target.content()[: array.nbytes] == array[:, ::-1].tobytes()


def _halves():
    """A servable of one signature with two outputs, of which ``high`` comes first."""
    return FakeServable(
        (
            signature("f", [spec("x")], [spec("high"), spec("low")]),
            lambda inputs: {"low": inputs["x"], "high": inputs["x"] + 100},
        )
    )


# What does not fit. ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("byte_size", [0, 4, 7, 9, 16])
def test_the_size_of_an_input_must_be_that_of_its_tensor(source, byte_size):
    with serving(kit()) as served:
        register(served, "in", source)
        failure = infer(served, request(source=("in", byte_size)))

    assert isinstance(failure, InvalidArgumentError)
    assert f"Expected 8, got {byte_size}" in str(failure)


def test_bytes_of_a_wrong_size_are_not_even_read(source):
    huge = 2**45
    source.resize(huge)
    with serving(kit()) as served:
        register(served, "in", source, huge)
        assert f"Expected 8, got {huge}" in str(infer(served, request(source=("in", huge))))


def test_an_object_without_memory_behind_it_cannot_exhaust_the_servers(source):
    huge = 2**45
    source.resize(huge)
    with serving(kit()) as served:
        register(served, "in", source, huge)
        sent = request((1,), datatype="BYTES", name="s", source=("in", huge), signature="text")
        assert f"{huge} bytes of shared memory region 'in' were never written" in str(infer(served, sent))


@pytest.mark.parametrize("too_small", ["high", "low"])
def test_one_byte_too_few_for_an_output_and_nothing_is_written_at_all(source, target, too_small):
    source.write(rows(4))
    windows = {"high": ("out", 8, 0), "low": ("out", 8, 8)}
    windows[too_small] = ("out", 7, windows[too_small][2])
    with serving(_halves()) as served:
        register(served, "in", source)
        register(served, "out", target)
        failure = infer(served, request(outputs=windows))

    assert isinstance(failure, InternalError)
    assert f"for output '{too_small}' (7 bytes) should be at least 8 bytes to hold the results" in str(failure)
    assert target.content() == bytes(4096)


@pytest.mark.parametrize("which", ["input", "output"])
def test_an_unknown_region_is_not_found(source, which):
    with serving(kit()) as served:
        register(served, "in", source)
        sent = request(source=("nope", 8)) if which == "input" else request(outputs={"y": ("nope", 8)})

        assert isinstance(infer(served, sent), NotFoundError)


def test_an_output_cannot_be_classified_into_a_region(source):
    with serving(kit()) as served:
        register(served, "in", source)
        sent = request(outputs={"y": ("in", 8)})
        sent.outputs[0].parameters["classification"].int64_param = 1

        assert "can't set both 'shared_memory_region' and 'classification'" in str(infer(served, sent))


@pytest.mark.parametrize("which", ["input", "output"])
def test_regions_do_not_exist_for_callers_on_other_hosts(source, target, which):
    with serving(kit()) as served:
        register(served, "in", source)
        register(served, "out", target)
        sent = request() if which == "input" else message(model="clip")
        if which == "output":
            place(sent.outputs.add(name="y"), "out", 8)
        failure = infer(served, sent, REMOTE)

    assert isinstance(failure, NotFoundError)
    assert target.content() == bytes(4096)
