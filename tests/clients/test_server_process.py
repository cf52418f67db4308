import pytest

from clients.server_process import ServerProcess, ServerProcessError

pytestmark = pytest.mark.end_to_end


def test_a_server_that_cannot_start_is_an_error_with_its_own_words(tmp_path):
    with (
        ServerProcess(tmp_path / "nowhere") as server,
        pytest.raises(ServerProcessError, match=r"(?s)did not start; it ended with exit code [1-9].*nowhere"),
    ):
        server.wait_until_ready(timeout_s=60)


def test_a_server_that_takes_too_long_is_an_error_and_is_gone_after_the_block(digits):
    with (
        ServerProcess(digits.directory) as server,
        pytest.raises(ServerProcessError, match=r"named no port within 0.01 s; it still runs"),
    ):
        server.wait_until_ready(timeout_s=0.01)
    assert "exit_code=-9" in repr(server)


def test_a_started_server_is_ready_has_an_address_and_stops_when_asked(digits):
    from tritonclient.grpc import InferenceServerClient

    with ServerProcess(digits.directory) as server:
        server.wait_until_ready(timeout_s=60)
        with InferenceServerClient(server.address) as client:
            assert client.is_server_ready()
        assert server.resident_mib() > 100
        assert any("listening for gRPC" in line for line in server.log_lines())
        ((labels, runs),) = server.metric("signet_device_runs_total")
        assert labels["device"] == "CPU:0"
        assert runs > 0
        assert server.stop(timeout_s=60) == 0
