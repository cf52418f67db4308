"""Batching options seen from outside: of config.pbtxt, and of TensorFlow Serving's files and flags."""

import json
import queue

import numpy as np
import pytest
import tritonclient.grpc as triton

from clients.server_process import ServerProcess
from tests.end_to_end.calls import rows, tensors
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

CONFIG = """
    signatures {
        key: "tokens"
        value {
            max_batch_size: 8
            pad_variable_length_inputs { key: "ids" value: "0" }
            dynamic_batching { max_queue_delay_microseconds: 10000000 preferred_batch_size: [ 8 ] }
        }
    }
    signatures {
        key: "embed"
        value { max_batch_size: 8 allowed_batch_sizes: [ 4, 8 ] dynamic_batching { } }
    }
"""


LISTING = """
    model_config_list {
        config { name: "kit" base_path: "%s" model_platform: "tensorflow" model_version_policy { all { } } }
        config {
            name: "half_plus_two", base_path: "%s", model_platform: "tensorflow"
            model_version_policy { specific { versions: 1 versions: 3 } }
            version_labels { key: "stable" value: 1 }
        }
    }
"""

PARAMETERS = """
    max_batch_size { value: 16 }
    batch_timeout_micros { value: 200 }
    max_enqueued_batches { value: 100 }
    allowed_batch_sizes: [ 2, 16 ]
    num_batch_threads { value: 1 }
"""


@pytest.fixture(scope="module")
def configured(export, tmp_path_factory):
    root = tmp_path_factory.mktemp("configured")
    model = root / "exported"
    model.mkdir()
    (model / "5").symlink_to(export("kit"))
    (model / "config.pbtxt").write_text(CONFIG)
    half_plus_two = root / "saved_model_half_plus_two"
    for version, kind in (("00000001", "tf1_main_op"), ("3", "tf1_partitioned"), ("4", "kit")):
        half_plus_two.mkdir(exist_ok=True)
        (half_plus_two / version).symlink_to(export(kind))
    (half_plus_two / "2").mkdir()
    (half_plus_two / "2" / "saved_model.pb").write_bytes(b"\xff")
    (root / "models.config").write_text(LISTING % (model, half_plus_two))
    (root / "batching.txt").write_text(PARAMETERS)
    flags = [
        *("--enable_batching", f"--model_config_file={root / 'models.config'}"),
        f"--batching_parameters_file={root / 'batching.txt'}",
    ]
    with ServerProcess(export("counter"), *flags) as server:
        server.wait_until_ready(START_S)
        with triton.InferenceServerClient(server.address) as client:
            yield client
        assert server.stop(STOP_S) == 0


def test_requests_of_different_lengths_share_a_run_and_each_gets_its_own_sum(configured):
    answers = queue.Queue()
    sent = [np.arange(1, 2 + length, dtype=np.int64)[np.newaxis] for length in range(8)]
    for index, ids in enumerate(sent):
        configured.async_infer(
            "kit",
            tensors({"ids": ids}),
            lambda result, error, index=index: answers.put((index, result, error)),
            parameters={"signature": "tokens"},
        )
    outcomes = [answers.get(timeout=60) for _ in sent]
    got = {index: result.as_numpy("total").tolist() for index, result, _ in outcomes}

    assert got == {index: [int(ids.sum())] for index, ids in enumerate(sent)}
    # The delay is far longer than the test: only a full batch of all eight can have been run.
    entry = configured.get_inference_statistics("kit:tokens").model_stats[0]
    assert [(batch.batch_size, batch.compute_infer.count) for batch in entry.batch_stats] == [(8, 1)]


def test_a_run_is_padded_to_an_allowed_size_and_the_padding_is_not_answered(configured):
    result = configured.infer("kit", tensors({"x": rows(3)}), parameters={"signature": "embed"})

    assert result.as_numpy("z")[:, 0].tolist() == [1, 2, 3]


def test_files_of_tensorflow_serving_say_what_the_models_configuration_does_not(configured):
    config = configured.get_model_config("kit").config
    signatures = json.loads(config.parameters["signatures"].string_value)
    sizes = [signatures[name]["max_batch_size"] for name in ("serving_default", "wide", "embed")]

    assert configured.get_model_metadata("kit").versions == ["5"]
    assert sizes == [16, 16, 8]
    assert config.instance_group[0].count == 1
    configured.infer("kit", tensors({"x": rows(3)}), parameters={"signature": "serving_default"})
    entry = configured.get_inference_statistics("kit:serving_default").model_stats[0]
    assert [batch.batch_size for batch in entry.batch_stats] == [3]


def test_each_listed_model_has_the_versions_of_its_policy_and_answers_by_number(configured):
    x = np.array([[1, 2, 3, 4]], np.float32)

    assert configured.get_model_metadata("half_plus_two").versions == ["1", "3"]
    assert configured.infer("half_plus_two", tensors({"x": x}), "1").as_numpy("y").tolist() == [[2.5, 3, 3.5, 4]]
    assert configured.infer("half_plus_two", tensors({"x": x})).as_numpy("y").shape == (1, 2)
    for version in ("2", "4"):
        assert not configured.is_model_ready("half_plus_two", version)


def test_what_the_batching_parameters_say_is_told_by_the_model_configuration(configured):
    config = configured.get_model_config("half_plus_two").config

    assert (config.max_batch_size, config.instance_group[0].count) == (16, 1)
    assert config.dynamic_batching.max_queue_delay_microseconds == 200
