"""Loads that bring the model's files, with the stock client's ``load_model(config=, files=)``."""

import shutil
import signal

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, rows, tensors
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

OPTIONS = ("--model-control-mode", "explicit", "--allow-file-override", "true")
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)
"""Of the model ``module``."""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    """The directory for temporary files of the servers started here; they must leave it empty."""
    directory = tmp_path_factory.mktemp("scratch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(directory))
        yield directory
    assert list(directory.iterdir()) == []


@pytest.fixture(scope="module")
def opened(scratch, export, tmp_path_factory):
    """A server that takes files; its one model ``clip`` is a kit. It ends while files are in use."""
    root = tmp_path_factory.mktemp("models")
    shutil.copytree(export("kit"), root / "clip" / "1")
    with ServerProcess(root, *OPTIONS) as process:
        process.wait_until_ready(START_S)
        yield process
        with triton.InferenceServerClient(process.address) as client:
            client.load_model("left", config="{}", files=files(export("module")))
        assert process.stop(STOP_S) == 0


@pytest.fixture
def client(opened):
    with triton.InferenceServerClient(opened.address) as connected:
        yield connected


def files(directory, version=1):
    """Return the files of a SavedModel as the stock client sends them."""
    return {
        f"file:{version}/{path.relative_to(directory)}": path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def kept(scratch):
    """Return the names of the files that servers keep there."""
    return {path.name for path in scratch.glob("signet-*/**/*") if path.is_file()}


def test_model_is_made_of_the_files_until_it_is_loaded_without(client, scratch, export):
    client.load_model("clip")
    assert "y" in call(client, "clip", {"x": rows(1)}, "slow")
    client.load_model("clip", config='{"max_batch_size": 16}', files=files(export("module"), version=7))
    np.testing.assert_array_equal(rows(2) @ WEIGHTS, call(client, "clip", {"x": rows(2)}, model_version="7")["y"])
    assert client.get_model_config("clip").config.max_batch_size == 16
    assert not client.is_model_ready("clip", "1")
    assert "saved_model.pb" in kept(scratch)
    client.load_model("clip")
    assert "y" in call(client, "clip", {"x": rows(1)}, "slow", model_version="1")
    assert not client.is_model_ready("clip", "7")


def test_model_that_is_in_no_place_can_be_brought_and_unloaded(client, export):
    client.load_model("new", config="{}", files=files(export("several")))
    assert call(client, "new", {"word": np.array([b"two"], object)}, "find")["id"] == [2]
    client.unload_model("new")
    assert not client.is_model_ready("new")


def test_wrong_files_are_refused_and_what_serves_goes_on(client, export):
    client.load_model("clip")
    whole = files(export("module"), version=7)
    escaping = {**whole, "file:7/../../../escaped": b"x"}
    cut = {**whole, "file:7/saved_model.pb": whole["file:7/saved_model.pb"][:-50]}
    for text, options in {
        "needs the parameter 'config'": {"files": whole},
        "its path must be relative": {"config": "{}", "files": escaping},
        "version 7 is at UNAVAILABLE state": {"config": "{}", "files": cut},
    }.items():
        with pytest.raises(InferenceServerException, match=text) as caught:
            client.load_model("clip", **options)
        assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"

    assert "y" in call(client, "clip", {"x": rows(1)}, model_version="1")


def test_name_that_a_caller_gives_cannot_forge_lines_of_the_log(client, opened, export):
    name = "new\x1b[2J\r\nI1231 23:59:59.000000 1 service.server] FORGED\u2028FORGED"
    with pytest.raises(InferenceServerException):
        client.load_model(name, config="{}", files={"file:1/saved_model.pb": b"no graph"})

    lines = [line for line in opened.end_of_log().splitlines() if "FORGED" in line]
    assert lines
    for line in lines:
        assert r"model 'new\x1b[2J\r\nI1231 23:59:59.000000 1 service.server] FORGED\u2028FORGED'" in line
        assert line.isprintable()


def test_files_are_removed_also_when_the_server_ends_under_a_run(scratch, export, tmp_path):
    before = kept(scratch)
    with ServerProcess(tmp_path, *OPTIONS, "--drain-timeout", "0.5") as process:
        process.wait_until_ready(START_S)
        with triton.InferenceServerClient(process.address) as client:
            client.load_model("kit", config="{}", files=files(export("kit")))
            x = rows(1)
            x[0, 3] = 60_000  # the model sleeps so many milliseconds
            client.async_infer("kit", tensors({"x": x}), lambda *_: None, parameters={"signature": "slow"})
            assert client.is_server_live()
            process.send_signal(signal.SIGTERM)
            assert process.wait(STOP_S) == 1

    assert kept(scratch) == before
