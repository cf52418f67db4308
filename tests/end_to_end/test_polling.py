"""Mode poll: models are copied in, changed and removed while callers are served."""

import shutil
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import rows, tensors
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

LATEST_S = 60
"""How long a change on disk may take until it shows: a few polls, one a second, and a load on a busy machine."""

POLLING = ("--model-control-mode", "poll", "--repository-poll-secs", "1", "--repository-quiet-secs", "1")

WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
"""Of the model ``module``."""


@pytest.fixture(scope="module")
def models(export, tmp_path_factory):
    """A repository of copies; each test changes a model of its own."""
    root = tmp_path_factory.mktemp("polled")
    for name in ("copied", "removed", "configured"):
        shutil.copytree(export("module"), root / name / "1")
    return root


@pytest.fixture(scope="module")
def polling(models):
    with ServerProcess(models, *POLLING) as process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0


@pytest.fixture
def client(polling):
    with triton.InferenceServerClient(polling.address) as connected:
        yield connected


def index(client, name):
    listed = client.get_model_repository_index().models
    return {model.version: (model.state, model.reason) for model in listed if model.name == name}


def infer(client, name):
    """Return the version that answered, after checking its answer."""
    result = client.infer(name, tensors({"x": rows(3)}))
    np.testing.assert_array_equal(rows(3) @ WEIGHTS, result.as_numpy("y"))
    return result.get_response().model_version


def serve_until(client, name, condition):
    """Call a model again and again, which must not fail, until a condition holds; return the versions that answered."""
    deadline = time.monotonic() + LATEST_S
    answered = set()
    while not condition():
        answered.add(infer(client, name))
        assert time.monotonic() < deadline, index(client, name)
    return answered


def wait_until(client, condition):
    deadline = time.monotonic() + LATEST_S
    while not condition():
        assert client.is_server_live()
        assert time.monotonic() < deadline


def test_version_that_is_copied_in_serves_when_it_is_whole_and_not_before(client, models, export):
    """The copy pauses, for longer than the server waits for files to rest, after the graph and in the variables."""
    whole, copy = export("module"), models / "copied" / "2"
    (data,) = whole.glob("variables/variables.data*")

    def has_failed(why):
        state, reason = index(client, "copied").get("2", ("", ""))
        return state == "UNAVAILABLE" and why in reason

    copy.mkdir()
    shutil.copy(whole / "saved_model.pb", copy)
    assert serve_until(client, "copied", lambda: has_failed("variable")) == {"1"}
    assert client.is_server_ready()
    (copy / "variables").mkdir()
    shutil.copy(whole / "variables" / "variables.index", copy / "variables")
    assert serve_until(client, "copied", lambda: has_failed(data.name)) == {"1"}
    (copy / "variables" / data.name).write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    assert serve_until(client, "copied", lambda: has_failed("") and not has_failed(f"{data.name} is missing")) == {"1"}
    shutil.copytree(whole, copy, dirs_exist_ok=True)
    answered = serve_until(client, "copied", lambda: infer(client, "copied") == "2")

    assert answered <= {"1", "2"}
    wait_until(client, lambda: index(client, "copied") == {"1": ("UNAVAILABLE", "unloaded"), "2": ("READY", "")})


def test_version_that_is_removed_gives_way_to_the_one_before_and_the_last_to_none(client, models):
    shutil.copytree(models / "removed" / "1", models / "removed" / "2")
    serve_until(client, "removed", lambda: infer(client, "removed") == "2")
    shutil.rmtree(models / "removed" / "2")
    serve_until(client, "removed", lambda: infer(client, "removed") == "1")
    shutil.rmtree(models / "removed")
    wait_until(client, lambda: not client.is_model_ready("removed"))

    assert client.is_server_ready()
    assert index(client, "removed") == {}
    with pytest.raises(InferenceServerException, match="'removed' is not found"):
        infer(client, "removed")


def test_changed_configuration_takes_hold_and_a_broken_one_does_not(client, polling, models):
    def max_batch_size():
        return client.get_model_config("configured").config.max_batch_size

    config = models / "configured" / "config.pbtxt"
    config.write_text("max_batch_size: 7")
    serve_until(client, "configured", lambda: max_batch_size() == 7)
    config.write_text("max_batch_size: many")
    serve_until(client, "configured", lambda: "config.pbtxt:1:17" in polling.end_of_log())
    assert max_batch_size() == 7
    assert index(client, "configured") == {"1": ("READY", "")}
    config.write_text("max_batch_size: 8")
    serve_until(client, "configured", lambda: max_batch_size() == 8)


def test_model_that_comes_later_is_served_with_its_labels(client, models, export):
    shutil.copytree(export("module"), models / "late" / "1")
    (models / "late" / "labels.txt").write_text("a\nb\nc")
    (models / "late" / "config.pbtxt").write_text(
        'output { name: "y" data_type: TYPE_FP32 dims: [ 3 ] label_filename: "labels.txt" }'
    )
    wait_until(client, lambda: client.is_model_ready("late"))

    def best_label():
        wanted = triton.InferRequestedOutput("y", class_count=1)
        result = client.infer("late", tensors({"x": rows(1)}), outputs=[wanted])
        return result.as_numpy("y")[0][0].rpartition(b":")[2]

    assert best_label() == b"c"
    (models / "late" / "labels.txt").write_text("x\ny\nz")
    serve_until(client, "late", lambda: best_label() == b"z")


def test_loads_and_unloads_by_callers_are_refused(client):
    for change in (client.load_model, client.unload_model):
        with pytest.raises(InferenceServerException) as caught:
            change("configured")
        assert caught.value.status() == "StatusCode.UNAVAILABLE"
        assert caught.value.message() == "explicit model load / unload is not allowed if polling is enabled"


def test_server_may_start_with_nothing_and_wait_for_models(export, tmp_path):
    with ServerProcess(tmp_path, *POLLING) as process:
        process.wait_until_ready(START_S)
        with triton.InferenceServerClient(process.address) as client:
            shutil.copytree(export("module"), tmp_path / "first" / "1")
            wait_until(client, lambda: client.is_model_ready("first"))
            assert infer(client, "first") == "1"
        assert process.stop(STOP_S) == 0
