"""TraceSetting on real messages: for the server, for models, never for signatures."""

import pytest

from protos import grpc_service_pb2 as pb
from service.caller import UNKNOWN
from service.errors import InvalidArgumentError, LoadError
from service.trace_rpcs import TraceRpcs
from service.trace_settings import TraceBook, TraceSettings
from tests.service.serving import kit, repository

START = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}


class Trace:
    """The RPC over a repository with a model, one that failed to load, and a name that looks like an alias."""

    def __init__(self, **start):
        self.repository = repository({"clip": {1: kit()}, "bad": {1: LoadError("broken")}, "clip:v2": {1: kit()}})
        self._rpcs = TraceRpcs(self.repository, TraceBook(TraceSettings(**start)))

    def call(self, model="", **settings):
        request = pb.TraceSettingRequest(model_name=model)
        for key, values in settings.items():
            request.settings[key].SetInParent()
            request.settings[key].value.extend(values)
        _, method = self._rpcs.unary_methods()["TraceSetting"]
        return {key: list(value.value) for key, value in method(request, UNKNOWN).settings.items()}


@pytest.fixture
def trace():
    made = Trace()
    yield made
    made.repository.close(0)


@pytest.mark.parametrize("model", ["", "clip", "clip:v2"])
def test_without_settings_they_are_told(trace, model):
    assert trace.call(model) == START


def test_all_settings_are_told_as_text():
    trace = Trace(levels=("TIMESTAMPS", "TENSORS"), rate=2, count=3, log_frequency=4, file="trace.json")
    trace.repository.close(0)

    assert trace.call() == START | {
        "trace_level": ["TIMESTAMPS", "TENSORS"],
        "trace_rate": ["2"],
        "trace_count": ["3"],
        "log_frequency": ["4"],
        "trace_file": ["trace.json"],
    }


def test_settings_are_set_inherited_and_cleared(trace):
    assert trace.call(trace_rate=["5"]) == START | {"trace_rate": ["5"]}
    assert trace.call("clip", trace_count=["9"]) == START | {"trace_rate": ["5"], "trace_count": ["9"]}
    assert trace.call(trace_rate=[]) == START
    assert trace.call("clip") == START | {"trace_count": ["9"]}


@pytest.mark.parametrize("model", ["nope", "bad", "clip:nope"])
def test_a_model_that_is_not_served_is_an_invalid_argument(trace, model):
    with pytest.raises(InvalidArgumentError) as raised:
        trace.call(model, trace_rate=["x"])

    assert str(raised.value) == f"Request for unknown model : {model}"


def test_a_signature_has_no_trace_settings_of_its_own(trace):
    with pytest.raises(InvalidArgumentError, match="those of model 'clip'"):
        trace.call("clip:embed", trace_rate=["1"])
