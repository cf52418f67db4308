"""Each RPC on real messages: what it tells of models, versions and aliases, and how inference answers are encoded."""

import json

import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from service import raw_tensor, response_codec
from service.errors import (
    InternalError,
    InvalidArgumentError,
    LoadError,
    NotFoundError,
    ResourceExhaustedError,
    UnavailableError,
)
from tests.service.serving import Answer, kit, message, rows, serving


@pytest.fixture
def all_versions(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("version_policy { all {} }")
    return path


def infer(served, request):
    answer = Answer()
    served.answers.append(answer)
    served.servicer.infer(request, None, answer)
    return answer.wait()


# ModelInfer. -----------------------------------------------------------------------------------------------------


def test_answer_is_a_serialized_message_with_raw_outputs():
    with serving(kit()) as served:
        response = pb.ModelInferResponse.FromString(infer(served, message({"x": rows(1, 2)}, request_id="seven")))

    assert (response.model_name, response.model_version, response.id) == ("clip", "1", "seven")
    assert [(each.name, each.datatype, list(each.shape)) for each in response.outputs] == [("y", "FP32", [2, 2])]
    assert list(response.raw_output_contents) == [np.array([[2, 2], [4, 4]], np.float32).tobytes()]
    assert not response.parameters


def test_signature_is_told_when_the_parameter_named_it():
    with serving(kit()) as served:
        response = pb.ModelInferResponse.FromString(infer(served, message(signature="embed")))

    assert {key: value.string_param for key, value in response.parameters.items()} == {"signature": "embed"}


def test_strings_travel_unchanged():
    texts = raw_tensor.from_elements([b"", b"\0", b"\xff"], (3,))
    with serving(kit()) as served:
        response = pb.ModelInferResponse.FromString(infer(served, message({"s": texts}, signature="text")))

    assert response.raw_output_contents[0] == raw_tensor.encode(texts)


def test_refusal_is_handed_on_as_it_is():
    with serving(kit()) as served:
        answer = infer(served, message(model="nope"))

    assert type(answer) is NotFoundError


def test_answer_over_the_size_of_a_message_is_resource_exhausted_and_others_are_served(monkeypatch):
    monkeypatch.setattr(response_codec, "MAX_MESSAGE_BYTES", 15)
    with serving(kit()) as served:
        large, small = infer(served, message({"x": rows(1, 2)})), infer(served, message({"x": rows(1)}))

    assert type(large) is ResourceExhaustedError
    assert "y FP32[-1,2]" in str(large)
    assert isinstance(small, bytes)


def test_defect_while_an_answer_is_encoded_is_an_internal_error(caplog):
    with serving(kit(text=lambda inputs: {"s": np.array([3], object)})) as served:
        answer = infer(served, message({"s": raw_tensor.from_elements([b"a"], (1,))}, signature="text"))

    assert type(answer) is InternalError
    assert "log has the details" in str(answer)
    assert "TypeError" in caplog.text


# Health. ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ready", [True, False])
def test_server_is_live_and_ready_when_it_says_so(ready):
    with serving(kit(), is_ready=ready) as served:
        assert served.servicer.server_live(pb.ServerLiveRequest()).live
        assert served.servicer.server_ready(pb.ServerReadyRequest()).ready is ready


@pytest.mark.parametrize(
    ("name", "version", "ready"),
    [
        ("clip", "", True),
        ("clip", "1", True),
        ("clip:embed", "1", True),
        ("clip:broken", "", False),
        ("clip:nope", "", False),
        ("clip", "2", False),
        ("clip", "0", False),
        ("nope", "", False),
        ("", "", False),
        ("failed", "", False),
        ("failed", "1", False),
    ],
)
def test_model_is_ready_when_a_request_would_be_served(name, version, ready):
    with serving({"clip": {1: kit()}, "failed": {1: LoadError("broken")}}) as served:
        request = pb.ModelReadyRequest(name=name, version=version)

        assert served.servicer.model_ready(request).ready is ready


def test_version_that_is_no_number_is_the_only_error_of_model_ready():
    with serving(kit()) as served, pytest.raises(InvalidArgumentError, match="'abc'"):
        served.servicer.model_ready(pb.ModelReadyRequest(name="nope", version="abc"))


# Metadata and configuration. -------------------------------------------------------------------------------------


def test_server_metadata_announce_what_works():
    with serving(kit()) as served:
        answer = served.servicer.server_metadata(pb.ServerMetadataRequest())

    assert (answer.name, answer.version) == ("mine", "1.2.3")
    assert "statistics" in answer.extensions


def metadata(served, name, version=""):
    return served.servicer.model_metadata(pb.ModelMetadataRequest(name=name, version=version))


def test_metadata_list_ready_versions_as_numbers_in_order(all_versions):
    models = {"clip": {10: kit(), 2: kit(), 3: LoadError("broken")}}
    with serving(models, config_path=all_versions) as served:
        assert list(metadata(served, "clip").versions) == ["2", "10"]
        assert list(metadata(served, "clip:embed").versions) == ["2", "10"]
        assert list(metadata(served, "clip", "02").versions) == ["2"]
        with pytest.raises(UnavailableError, match="broken"):
            metadata(served, "clip", "3")


def test_metadata_describe_the_default_or_the_alias():
    with serving(kit()) as served:
        plain, alias = metadata(served, "clip"), metadata(served, "clip:embed")

    assert (plain.name, [each.name for each in plain.outputs]) == ("clip", ["y"])
    assert (alias.name, [(each.name, list(each.shape)) for each in alias.outputs]) == ("clip:embed", [("z", [-1, 3])])
    assert {"embed", "sum", "threshold"} <= set(json.loads(plain.properties["signatures"]))


def config(served, name, version=""):
    return served.servicer.model_config(pb.ModelConfigRequest(name=name, version=version)).config


def test_config_is_the_models_or_the_aliases():
    with serving(kit()) as served:
        plain, alias = config(served, "clip"), config(served, "clip:embed", "1")

    assert (plain.name, [each.name for each in plain.output]) == ("clip", ["y"])
    assert (alias.name, [each.name for each in alias.output]) == ("clip:embed", ["z"])
    assert "embed" in plain.signatures


@pytest.mark.parametrize("tell", [metadata, config])
@pytest.mark.parametrize(
    ("name", "version", "kind"),
    [
        ("nope", "", NotFoundError),
        ("clip", "2", NotFoundError),
        ("clip:nope", "", NotFoundError),
        ("clip:broken", "", UnavailableError),
        ("clip", "abc", InvalidArgumentError),
    ],
)
def test_metadata_and_config_of_what_is_not_there_are_refused(tell, name, version, kind):
    with serving(kit()) as served, pytest.raises(kind):
        tell(served, name, version)


# Statistics. -----------------------------------------------------------------------------------------------------


def statistics(served, name="", version=""):
    answer = served.servicer.model_statistics(pb.ModelStatisticsRequest(name=name, version=version))
    return {(each.name, each.version): each.inference_stats.success.count for each in answer.model_stats}


def test_statistics_list_every_ready_version_and_each_alias_that_was_used(all_versions):
    models = {"clip": {1: kit(), 2: kit()}, "bert": {1: kit(), 2: LoadError("broken")}}
    with serving(models, config_path=all_versions) as served:
        for name in ("clip:sum", "clip:embed", "clip:embed", "bert", "clip:nope"):
            infer(served, message(model=name))

        assert statistics(served) == {
            ("bert", "1"): 1,
            ("clip", "1"): 0,
            ("clip", "2"): 3,
            ("clip:embed", "2"): 2,
            ("clip:sum", "2"): 1,
        }
        assert list(statistics(served, "", "2")) == list(statistics(served))


def test_statistics_of_a_name_and_version(all_versions):
    with serving({"clip": {1: kit(), 2: kit()}}, config_path=all_versions) as served:
        infer(served, message(model="clip:embed", version="1"))

        assert statistics(served, "clip") == {("clip", "1"): 1, ("clip", "2"): 0}
        assert statistics(served, "clip", "2") == {("clip", "2"): 0}
        assert statistics(served, "clip:embed") == {("clip:embed", "1"): 1, ("clip:embed", "2"): 0}
        assert statistics(served, "clip:sum", "1") == {("clip:sum", "1"): 0}


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("nope", ""),
        ("clip", "2"),
        ("clip:nope", ""),
        ("clip:broken", ""),
        ("failed", ""),
        ("failed", "1"),
        ("clip", "x"),
    ],
)
def test_statistics_of_what_is_not_available_are_an_invalid_argument(name, version):
    models = {"clip": {1: kit()}, "failed": {1: LoadError("broken")}}
    with serving(models) as served, pytest.raises(InvalidArgumentError):
        statistics(served, name, version)
