"""One server process for all tests that only send requests, and stock clients for it."""

import pytest
import tritonclient.grpc as triton

from clients.server_process import ServerProcess

START_S = 120
STOP_S = 60

SERVED = ("kit", "several", "counter", "module", "broken_signature")


@pytest.fixture(scope="session")
def repository(export, tmp_path_factory):
    """A directory of models in TensorFlow Serving's layout."""
    root = tmp_path_factory.mktemp("models")
    for kind in SERVED:
        (root / kind).mkdir()
        (root / kind / "1").symlink_to(export(kind))
    return root


@pytest.fixture(scope="session")
def server(repository):
    """The running server; it must end with exit code 0."""
    with ServerProcess(repository) as process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.address) as connected:
        yield connected


@pytest.fixture(scope="session")
def digits_server(digits, export, tmp_path_factory):
    """A server in mode explicit on the demo's model and one with a single signature."""
    root = tmp_path_factory.mktemp("digits_repository")
    for name, path in (("digits", digits.directory), ("vocabulary", export("tf1_tables"))):
        (root / name).mkdir()
        (root / name / "1").symlink_to(path)
    with ServerProcess(root, "--model-control-mode", "explicit", "--load-model", "*") as process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0
