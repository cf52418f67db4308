"""Any parameters of shared memory on any tensor: an answer or a refusal, no region kept, no byte outside touched."""

import mmap
from functools import partial

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from protos import grpc_service_pb2 as pb
from service.errors import InternalError, InvalidArgumentError, NotFoundError
from service.system_region import SystemRegion
from tests.memory_objects import memory_objects
from tests.service.serving import kit, message, rows, serving
from tests.service.tensors import deterministic
from tests.service.test_shared_memory_inference import infer

PAGE = mmap.PAGESIZE
OUTSIDE = b"\x55" * PAGE

_numbers = st.sampled_from([0, 8, 16, PAGE - 8]) | st.integers(-9, PAGE + 9) | st.integers(-(2**63), 2**63 - 1)
_values = st.one_of(
    st.sampled_from(["r", "r", "r", "nope", ""]).map(lambda name: pb.InferParameter(string_param=name)),
    _numbers.map(lambda number: pb.InferParameter(int64_param=number)),
    st.sampled_from([pb.InferParameter(), pb.InferParameter(bool_param=True), pb.InferParameter(uint64_param=8)]),
)
_likely = st.fixed_dictionaries(
    {
        "shared_memory_region": st.just(pb.InferParameter(string_param="r")),
        "shared_memory_byte_size": _numbers.map(lambda number: pb.InferParameter(int64_param=number)),
    },
    optional={"shared_memory_offset": _numbers.map(lambda number: pb.InferParameter(int64_param=number))},
)
_any = st.dictionaries(
    st.sampled_from(["shared_memory_region", "shared_memory_byte_size", "shared_memory_offset", "other"]), _values
)
_parameters = st.none() | _likely | _any


@pytest.fixture(scope="module")
def served():
    """A service with a region in the middle page of an object, and the object."""
    with memory_objects() as make, serving(kit()) as serving_kit:
        memory = make(3 * PAGE)
        memory.write_bytes(OUTSIDE + rows(*range(PAGE // 8)).tobytes() + OUTSIDE)
        serving_kit.regions.register("r", partial(SystemRegion, "r", memory.key, PAGE, PAGE))
        yield serving_kit, memory


@settings(deterministic, max_examples=500)
@given(source=_parameters, target=_parameters, count=st.sampled_from([0, 1, 2, 3]))
def test_any_parameters_get_an_answer_and_touch_nothing_outside(served, source, target, count):
    serving_kit, memory = served
    sent = message({"x": rows(*range(count))} if source is None else {})
    if source is not None:
        _set(sent.inputs.add(name="x", datatype="FP32", shape=[count, 2]), source)
    if target is not None:
        _set(sent.outputs.add(name="y"), target)

    result = infer(serving_kit, sent)

    event(type(result).__name__)
    if isinstance(result, pb.ModelInferResponse):
        assert list(result.outputs[0].shape) == [count, 2]
        in_message = target is None or "shared_memory_region" not in target
        assert len(result.raw_output_contents[0]) == (8 * count if in_message else 0)
    else:
        assert type(result) in {InvalidArgumentError, NotFoundError, InternalError}
        assert "server's log" not in str(result)
    content = memory.content()
    assert content[:PAGE] == OUTSIDE
    assert content[2 * PAGE :] == OUTSIDE


def _set(tensor, parameters):
    for key, value in parameters.items():
        tensor.parameters[key].CopyFrom(value)
