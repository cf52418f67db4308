import pytest
from google.protobuf import text_format
from tritonclient.grpc.model_config_pb2 import ModelConfig

from clients.benchmarks.models import MODELS
from clients.benchmarks.triton import TritonError, TritonProcess, write_repository


def config_of(directory, model):
    write_repository(directory, MODELS[model], directory / "export", max_batch_size=8)
    return text_format.Parse((directory / model / "config.pbtxt").read_text(), ModelConfig())


@pytest.mark.parametrize("model", MODELS)
def test_tritons_configuration_names_every_tensor_of_every_signature_once(model, tmp_path):
    config = config_of(tmp_path, model)

    signatures = MODELS[model].signatures.values()
    assert sorted(tensor.name for tensor in config.input) == sorted({signature.input.name for signature in signatures})
    assert sorted(tensor.name for tensor in config.output) == sorted({one.output.name for one in signatures})
    assert config.max_batch_size == 8
    assert config.parameters["saved_model"].string_value == str(tmp_path / "export")
    assert (tmp_path / model / "1" / "model.py").is_file()


def test_inputs_are_optional_where_signatures_take_different_ones(tmp_path):
    assert [tensor.optional for tensor in config_of(tmp_path, "efficientnet").input] == [True, True]
    assert [tensor.optional for tensor in config_of(tmp_path, "toy").input] == [False]


def test_a_directory_without_triton_is_an_error_that_names_it(tmp_path):
    with pytest.raises(TritonError, match=f"{tmp_path} holds no Triton"):
        TritonProcess(tmp_path, tmp_path / "repository")
