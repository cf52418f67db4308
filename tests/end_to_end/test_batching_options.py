"""Batching options of config.pbtxt, seen from outside: padding of lengths and of sizes, on a real server."""

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


@pytest.fixture(scope="module")
def configured(export, tmp_path_factory):
    root = tmp_path_factory.mktemp("configured")
    model = root / "kit"
    model.mkdir()
    (model / "1").symlink_to(export("kit"))
    (model / "config.pbtxt").write_text(CONFIG)
    with ServerProcess(root) as server:
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
