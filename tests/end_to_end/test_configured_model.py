"""What a configuration adds to a model reaches stock clients: labels, image formats, reshaped tensors."""

import importlib.util

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import model_config_pb2 as mc
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, tensors
from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.test_perf_analyzer import PERF_ANALYZER, measure

pytestmark = pytest.mark.end_to_end

HAS_TENSORFLOW_TEXT = importlib.util.find_spec("tensorflow_text") is not None


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    from tests.exports.pictures import export_pictures

    root = tmp_path_factory.mktemp("configured")
    export_pictures(root / "pictures")
    if HAS_TENSORFLOW_TEXT:
        from tests.exports.tokenizer import export_tokenizer

        export_tokenizer(root / "tokenizer" / "1")
    with ServerProcess(root) as process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0


@pytest.fixture
def client(configured):
    with triton.InferenceServerClient(configured.address) as connected:
        yield connected


def pictures(*colours):
    """Return pictures of one colour each."""
    return np.tile(np.array(colours, np.float32)[:, None, None, :], (1, 8, 8, 1))


def classes(client, images, count, model="pictures"):
    wanted = [triton.InferRequestedOutput("scores", class_count=count)]
    return client.infer(model, tensors({"image": images}), outputs=wanted).as_numpy("scores").tolist()


def test_classes_carry_the_labels_of_the_file(client):
    told = classes(client, pictures([3, 2, 1], [0, 0.5, 1]), 2)

    assert told == [
        [b"3.000000:0:red", b"2.000000:1:green"],
        [b"1.000000:2:deep blue", b"0.500000:1:green"],
    ]


def test_a_class_beyond_the_file_has_no_label(client):
    assert classes(client, pictures([1, 2, 3]), 99)[0][1:3] == [b"2.000000:1:green", b"2.000000:3"]


def test_without_class_count_the_tensor_is_answered(client):
    assert call(client, "pictures", {"image": pictures([3, 2, 1])})["scores"].tolist() == [[3, 2, 1, 2]]


def test_image_clients_find_what_they_ask_of_a_model(client):
    metadata, config = client.get_model_metadata("pictures"), client.get_model_config("pictures").config

    assert [len(metadata.inputs), len(metadata.outputs), len(config.input)] == [1, 1, 1]
    assert metadata.outputs[0].datatype == "FP32"
    assert [size for size in metadata.outputs[0].shape[1:] if size > 1] == [4]
    assert list(metadata.inputs[0].shape) == [-1, 8, 8, 3]
    assert config.input[0].format == mc.ModelInput.FORMAT_NHWC
    assert config.max_batch_size == 8


@pytest.mark.parametrize("streaming", [False, True])
def test_image_clients_can_show_each_class(client, streaming):
    wanted = [triton.InferRequestedOutput("scores", class_count=3)]
    results = []
    if streaming:
        client.start_stream(lambda result, error: results.append((result, error)))
        client.async_stream_infer("pictures", tensors({"image": pictures([3, 2, 1])}), outputs=wanted)
        client.stop_stream()
    else:
        results.append((client.infer("pictures", tensors({"image": pictures([3, 2, 1])}), outputs=wanted), None))
    ((result, error),) = results

    assert error is None
    (row,) = result.as_numpy("scores")
    assert [bytes(each).decode().split(":") for each in row[:2]] == [
        ["3.000000", "0", "red"],
        ["2.000000", "1", "green"],
    ]


def test_classes_of_another_signature_are_without_labels(client):
    wanted = [triton.InferRequestedOutput("next", class_count=1)]
    result = client.infer("pictures:ids", tensors({"id": np.array([[4], [7]], np.int32)}), outputs=wanted)

    assert result.as_numpy("next").tolist() == [[b"5:0"], [b"8:0"]]


def test_a_reshaped_tensor_has_the_configured_shape(client):
    metadata = client.get_model_metadata("pictures:ids")

    assert [list(each.shape) for each in (*metadata.inputs, *metadata.outputs)] == [[-1, 1], [-1, 1]]
    told = call(client, "pictures", {"id": np.array([[4], [7]], np.int32)}, "ids")["next"]
    assert told.tolist() == [[5], [8]]
    with pytest.raises(InferenceServerException, match="unexpected shape"):
        call(client, "pictures", {"id": np.array([4], np.int32)}, "ids")


@pytest.mark.skipif(not PERF_ANALYZER.exists(), reason="perf_analyzer is not installed: make perf-analyzer")
@pytest.mark.parametrize("batch", ["1", "4"])
@pytest.mark.parametrize("model", ["pictures", "pictures:ids"])
def test_perf_analyzer_measures_a_configured_model(configured, model, batch):
    run = measure(configured.address, "-m", model, "-b", batch)

    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.skipif(not HAS_TENSORFLOW_TEXT, reason="tensorflow-text is not installed: the extra `text`")
def test_a_tokenizer_of_tensorflow_text_is_served_with_its_vocabulary(client):
    text = np.array([b"The owl sleeps, and", b"Cat sleeping."], object)

    assert call(client, "tokenizer", {"text": text})["ids"].tolist() == [[4, 5, 7, 8, 11, 10], [6, 7, 9, 12, 0, 0]]
    assert call(client, "tokenizer", {"text": text}, "words")["words"].tolist() == [
        [b"The", b"owl", b"sleeps,", b"and"],
        [b"Cat", b"sleeping.", b"", b""],
    ]
