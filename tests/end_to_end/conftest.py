"""One server process for all tests that only send requests, and stock clients for it."""

from contextlib import ExitStack

import pytest
import tritonclient.grpc as triton

from clients.server_process import ServerProcess

START_S = 120
STOP_S = 60

SERVED = ("kit", "several", "counter", "module", "broken_signature", "faults")


@pytest.fixture(scope="session")
def repository(export, tmp_path_factory):
    """A directory of models in TensorFlow Serving's layout."""
    root = tmp_path_factory.mktemp("models")
    for kind in SERVED:
        (root / kind).mkdir()
        (root / kind / "1").symlink_to(export(kind))
    return root


@pytest.fixture(scope="session")
def servers(repository):
    """Return a function that starts a server on a transport at its first use; each must end with exit code 0."""
    with ExitStack() as stack:
        started = {}

        def server_on(transport):
            if transport not in started:
                process = stack.enter_context(ServerProcess(repository, "--transport", transport))
                process.wait_until_ready(START_S)
                started[transport] = process
            return started[transport]

        yield server_on
        assert [process.stop(STOP_S) for process in started.values()] == [0] * len(started)


@pytest.fixture(scope="session")
def transport(request):
    """Return which transport the server has: the default one, or each in turn for tests marked `on_each_transport`."""
    return getattr(request, "param", "auto")


@pytest.fixture(scope="session")
def server(servers, transport):
    """Return the running server."""
    return servers(transport)


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
    addresses = ("--grpc-address", "127.0.0.1", "--grpc-address", f"unix:{root / 'signet.sock'}")
    with ServerProcess(root, "--model-control-mode", "explicit", "--load-model", "*", *addresses) as process:
        process.wait_until_ready(START_S)
        yield process
        assert process.stop(STOP_S) == 0
