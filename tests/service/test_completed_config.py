"""ModelConfig and ModelMetadata tell what Triton would, agree with one another, and list every signature."""

import json

import pytest
from google.protobuf import json_format, text_format

from protos.grpc_service_pb2 import ModelMetadataResponse
from protos.model_config_pb2 import ModelConfig
from service.config_completion import ConfigDefaults, complete
from service.datatypes import DATATYPES
from service.signature import Signature, TensorSpec

FP32, INT32, BYTES = DATATYPES["FP32"], DATATYPES["INT32"], DATATYPES["BYTES"]
SUM = Signature(
    "serving_default",
    tuple(TensorSpec(name, INT32, (-1, 16)) for name in ("INPUT0", "INPUT1")),
    tuple(TensorSpec(name, INT32, (-1, 16)) for name in ("OUTPUT0", "OUTPUT1")),
)
TEXT = Signature("text", (TensorSpec("text", BYTES, (-1,)),), (TensorSpec("embedding", FP32, (-1, 512)),))
THRESHOLD = Signature("threshold", (), (TensorSpec("value", FP32, ()),))
BLOB = Signature("blob", (TensorSpec("blob", FP32, None),), (TensorSpec("size", INT32, (1,)),))
SUM_CONFIG = """
    name: "clip" platform: "tensorflow_savedmodel" max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] }, { name: "INPUT1" dims: [ 16 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] } ] output [ { name: "OUTPUT1" dims: [ 16 ] } ]
    instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def completed(*signatures, text="", **defaults):
    return complete(
        text_format.Parse(text, ModelConfig()),
        model="clip",
        signatures={signature.name: signature for signature in signatures},
        defaults=ConfigDefaults(**defaults),
    )


def as_json(message):
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def test_a_model_with_one_signature_looks_to_stock_clients_as_on_triton():
    answer = as_json(completed(SUM, text=SUM_CONFIG, auto_complete=False).model)
    del answer["signatures"]  # stock clients do not know this field

    assert answer == {
        "name": "clip",
        "platform": "tensorflow_savedmodel",
        "backend": "tensorflow",
        "default_model_filename": "model.savedmodel",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 8,
        "input": [
            {"name": "INPUT0", "data_type": "TYPE_INT32", "dims": ["16"]},
            {"name": "INPUT1", "data_type": "TYPE_INT32", "dims": ["16"]},
        ],
        "output": [
            {"name": "OUTPUT0", "data_type": "TYPE_INT32", "dims": ["16"]},
            {"name": "OUTPUT1", "data_type": "TYPE_INT32", "dims": ["16"]},
        ],
        "instance_group": [{"name": "clip_0", "kind": "KIND_CPU", "count": 1}],
        "optimization": {"input_pinned_memory": {"enable": True}, "output_pinned_memory": {"enable": True}},
    }


def test_what_a_file_says_beyond_the_tensors_is_kept():
    text = """
        version_policy { specific { versions: [ 1, 10 ] } } default_model_filename: "mine"
        parameters { key: "TF_GRAPH_TAG" value { string_value: "serve" } }
        optimization { priority: PRIORITY_MAX input_pinned_memory { enable: false } }
        model_warmup { name: "one" } metric_tags { key: "team" value: "a" }
    """
    model = completed(SUM, text=text).model

    assert list(model.version_policy.specific.versions) == [1, 10]
    assert model.default_model_filename == "mine"
    assert model.parameters["TF_GRAPH_TAG"].string_value == "serve"
    assert as_json(model.optimization) == {
        "priority": "PRIORITY_MAX",
        "input_pinned_memory": {},
        "output_pinned_memory": {"enable": True},
    }
    assert model.model_warmup[0].name == "one"
    assert model.metric_tags["team"] == "a"


def test_fields_whose_presence_changes_how_clients_drive_the_server_are_left_out():
    model = completed(SUM, text="model_transaction_policy { decoupled: false } response_cache { enable: false }").model

    for field in ("sequence_batching", "model_transaction_policy", "response_cache"):
        assert not model.HasField(field)


def test_the_answer_lists_every_signature_in_the_field_and_as_json():
    text = 'signatures { key: "text" value { max_batch_size: 16 } }'
    model = completed(SUM, TEXT, THRESHOLD, text=text).model

    assert {name: each.max_batch_size for name, each in model.signatures.items()} == {
        "serving_default": 64,
        "text": 16,
        "threshold": 0,
    }
    assert all(each.HasField("max_batch_size") for each in model.signatures.values())
    assert json.loads(model.parameters["signatures"].string_value)["text"] == {
        "max_batch_size": 16,
        "input": [{"name": "text", "data_type": "TYPE_STRING", "dims": []}],
        "output": [{"name": "embedding", "data_type": "TYPE_FP32", "dims": [512]}],
    }


def test_without_a_default_the_answer_has_no_tensors_but_the_list():
    config = completed(TEXT, THRESHOLD)
    metadata = config.metadata("clip", config.default_signature, versions=["3"])

    assert not config.model.input
    assert not config.model.output
    assert sorted(json.loads(config.model.parameters["signatures"].string_value)) == ["text", "threshold"]
    assert not metadata.inputs
    assert sorted(json.loads(metadata.properties["signatures"])) == ["text", "threshold"]


def test_an_alias_is_named_so_and_describes_its_signature():
    config = completed(SUM, TEXT).for_signature("text")

    assert config.name == "clip:text"
    assert config.max_batch_size == 64
    assert [tensor.name for tensor in config.input] == ["text"]
    assert not config.signatures
    assert "signatures" not in config.parameters
    assert config.instance_group[0].name == "clip"


def test_an_alias_that_is_not_batched_says_so():
    config = completed(SUM, THRESHOLD, text="max_batch_size: 8").for_signature("threshold")

    assert config.max_batch_size == 0
    assert not config.HasField("dynamic_batching")


def test_metadata_describes_the_signature():
    metadata = completed(SUM, TEXT).metadata("clip:text", "text", versions=["3", "10"])

    assert metadata.name == "clip:text"
    assert list(metadata.versions) == ["3", "10"]
    assert metadata.platform == "tensorflow_savedmodel"
    assert list(metadata.inputs) == [ModelMetadataResponse.TensorMetadata(name="text", datatype="BYTES", shape=[-1])]
    assert list(metadata.outputs) == [
        ModelMetadataResponse.TensorMetadata(name="embedding", datatype="FP32", shape=[-1, 512])
    ]


@pytest.mark.parametrize("text", ["", "max_batch_size: 8", 'signatures { key: "text" value { max_batch_size: 0 } }'])
@pytest.mark.parametrize("auto_complete", [True, False])
def test_configuration_and_metadata_agree_for_every_signature(text, auto_complete):
    completed_config = completed(SUM, TEXT, THRESHOLD, BLOB, text=text, auto_complete=auto_complete)

    for name in completed_config.signatures:
        config = completed_config.for_signature(name)
        metadata = completed_config.metadata(f"clip:{name}", name, versions=["1"])
        batch = [-1] if config.max_batch_size else []
        for configured, described in ((config.input, metadata.inputs), (config.output, metadata.outputs)):
            assert [each.name for each in configured] == [each.name for each in described]
            assert [batch + list(each.dims) for each in configured] == [list(each.shape) for each in described]


def test_an_unknown_signature_is_a_key_error():
    config = completed(SUM)

    for ask in (config.for_signature, config.signature_config, config.max_batch_size, config.joins):
        with pytest.raises(KeyError):
            ask("nope")
