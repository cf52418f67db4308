"""Every signature of one loaded SavedModel, chosen per request."""

import json

import numpy as np
import pytest
import tensorflow as tf
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, on_each_transport, rows, tensors, texts

pytestmark = [pytest.mark.end_to_end, on_each_transport]

CASES = {
    "serving_default": {"x": rows(3)},
    "embed": {"x": rows(5)},
    "wide": {"x": rows(2, columns=6)},
    "tokens": {"ids": np.arange(10, dtype=np.int64).reshape(2, 5)},
    "text": {"text": texts(b"", b"\0", b"a\0", "h\u00e9llo \U0001f600".encode(), b"\xff\xfe", b"x" * 3_000_000)},
    "text0": {"text": np.array(b"one\0", object)},
    "info": {},
    "mean": {"x": rows(3)},
    "scale": {"x": rows(3), "k": np.array(3, np.float32)},
    "filter": {"x": rows(4, first_id=-1)},
    "picky": {"x": rows(2)},
    "slow": {"x": rows(2)},
    "many": {"x": rows(2)},
    "turn": {"t": np.arange(30, dtype=np.float32).reshape(2, 3, 5)},
    "blow": {"n": np.array(1000, np.int32)},
    "id_bool": {"v": np.array([True, False])},
    "id_uint64": {"v": np.array([0, 2**64 - 1], np.uint64)},
    "id_int8": {"v": np.array([-128, 127], np.int8)},
    "id_fp16": {"v": np.array([0.1, -65504], np.float16)},
    "id_fp32": {"v": np.array([np.nan, np.inf, -0.0, 1e-45], np.float32)},
    "id_fp64": {"v": np.array([np.pi], np.float64)},
}


@pytest.fixture(scope="module")
def reference(export):
    """The same export in TensorFlow itself."""
    return tf.saved_model.load(str(export("kit"))).signatures


def assert_same_bits(expected, got):
    assert set(expected) == set(got)
    for name, tensor in expected.items():
        array = np.asarray(tensor.numpy(), object if tensor.dtype is tf.string else None)
        if tensor.dtype is tf.string:
            assert got[name].tolist() == array.tolist()
        else:
            assert (got[name].dtype, got[name].shape) == (array.dtype, array.shape)
            assert got[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("signature", CASES)
def test_signature_named_by_parameter_answers_as_tensorflow_does(client, reference, signature):
    inputs = CASES[signature]
    expected = reference[signature](**{name: tf.constant(array) for name, array in inputs.items()})

    assert_same_bits(expected, call(client, "kit", inputs, signature))


@pytest.mark.parametrize("signature", ["embed", "info", "tokens"])
def test_signature_named_by_model_name_answers_the_same(client, signature):
    inputs = CASES[signature]
    by_parameter = call(client, "kit", inputs, signature)
    by_name = call(client, f"kit:{signature}", inputs)

    assert {name: array.tolist() for name, array in by_parameter.items()} == {
        name: array.tolist() for name, array in by_name.items()
    }


def test_response_echoes_the_name_that_the_request_used(client):
    response = client.infer("kit:embed", tensors({"x": rows(1)}), request_id="seven").get_response()

    assert (response.model_name, response.model_version, response.id) == ("kit:embed", "1", "seven")


def test_response_carries_the_signature_only_when_the_request_named_it(client):
    by_parameter = client.infer("kit", tensors({"x": rows(1)}), parameters={"signature": "embed"}).get_response()
    by_name = client.infer("kit:embed", tensors({"x": rows(1)})).get_response()
    unnamed = client.infer("kit", tensors({"x": rows(1)})).get_response()

    assert by_parameter.parameters["signature"].string_param == "embed"
    assert by_name.parameters["signature"].string_param == "embed"
    assert not unnamed.parameters


def test_empty_signature_means_the_default(client):
    result = client.infer("kit", tensors({"x": rows(2)}), parameters={"signature": ""})

    np.testing.assert_array_equal(rows(2)[:, :2] * 10, result.as_numpy("y"))


@pytest.mark.parametrize(
    ("model", "parameters", "status", "texts_wanted"),
    [
        ("kit", {"signature": "embde"}, "INVALID_ARGUMENT", ["embde", "'embed'", "'serving_default'"]),
        ("kit", {"signature": "x" * 10_000}, "INVALID_ARGUMENT", ["no signature"]),
        ("kit", {"signature": 3}, "INVALID_ARGUMENT", ["signature", "string_param"]),
        ("kit", {"signature": True}, "INVALID_ARGUMENT", ["signature", "string_param"]),
        ("kit", {"signature": "__saved_model_init_op"}, "INVALID_ARGUMENT", ["no signature"]),
        ("several", {"signature": "train_op"}, "INVALID_ARGUMENT", ["no signature", "'find'", "'length'"]),
        ("kit:embed", {"signature": "wide"}, "INVALID_ARGUMENT", ["embed", "wide"]),
        ("kit:embde", {}, "NOT_FOUND", ["embde", "'embed'"]),
        ("several", {}, "INVALID_ARGUMENT", ["no default signature", "'find'", "'length'"]),
    ],
)
def test_wrong_signature_is_refused_with_what_there_is(client, model, parameters, status, texts_wanted):
    with pytest.raises(InferenceServerException) as caught:
        client.infer(model, tensors({"x": rows(1)}), parameters=parameters)

    assert caught.value.status() == f"StatusCode.{status}"
    for text in texts_wanted:
        assert text in caught.value.message()


def test_parameter_that_agrees_with_the_name_is_accepted(client):
    outputs = call(client, "kit:embed", {"x": rows(1)}, "embed")

    assert outputs["z"][0, 0] == 1


def test_signature_on_an_input_tensor_selects_nothing(client):
    (tensor,) = tensors({"x": rows(1)})
    tensor._get_tensor().parameters["signature"].string_param = "embed"

    assert client.infer("kit", [tensor]).as_numpy("y") is not None


def test_two_signatures_see_the_same_variables(client):
    call(client, "counter", {}, "increment")
    before = call(client, "counter", {}, "read")["count"]
    call(client, "counter", {}, "increment")

    assert call(client, "counter", {}, "read")["count"] == before + 1


def test_signature_that_cannot_run_is_unavailable_while_its_neighbours_are_served(client):
    with pytest.raises(InferenceServerException, match="'broken'") as caught:
        client.infer("broken_signature", tensors({"x": rows(1)}), parameters={"signature": "broken"})

    assert caught.value.status() == "StatusCode.UNAVAILABLE"
    assert "no_such_node" in caught.value.message()
    assert call(client, "broken_signature", {"x": rows(1)}, "serving_default")


def test_metadata_and_config_describe_default_and_alias(client):
    plain = client.get_model_metadata("kit")
    alias = client.get_model_metadata("kit:tokens")
    config = client.get_model_config("kit:tokens").config

    assert [(each.name, each.datatype, list(each.shape)) for each in plain.inputs] == [("x", "FP32", [-1, 4])]
    assert [(each.name, each.datatype, list(each.shape)) for each in alias.inputs] == [("ids", "INT64", [-1, -1])]
    assert (alias.name, list(alias.versions), alias.platform) == ("kit:tokens", ["1"], "tensorflow_savedmodel")
    assert config.name == "kit:tokens"
    assert config.max_batch_size == 64
    assert [list(each.dims) for each in config.input] == [[-1]]


def test_model_without_default_is_described_by_its_list(client):
    metadata = client.get_model_metadata("several")
    config = client.get_model_config("several").config

    assert not metadata.inputs
    assert not config.input
    assert set(json.loads(config.parameters["signatures"].string_value)) == {"find", "length"}


@pytest.mark.parametrize(
    ("name", "version", "ready"),
    [("kit", "", True), ("kit:embed", "1", True), ("kit:nope", "", False), ("kit", "2", False), ("nope", "", False)],
)
def test_model_ready_tells_of_models_versions_and_aliases(client, name, version, ready):
    assert client.is_model_ready(name, version) is ready
