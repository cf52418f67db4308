"""Stock clients read and change what a running server logs and traces."""

import re

import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.conftest import START_S, STOP_S

pytestmark = pytest.mark.end_to_end

TRACE = {
    "trace_level": ["OFF"],
    "trace_rate": ["1000"],
    "trace_count": ["-1"],
    "log_frequency": ["0"],
    "trace_file": [""],
    "trace_mode": ["triton"],
}


def trace(answer):
    return {key: list(setting.value) for key, setting in answer.settings.items()}


def test_trace_settings_are_set_inherited_and_cleared(client):
    assert trace(client.get_trace_settings()) == TRACE
    try:
        client.update_trace_settings(settings={"trace_rate": "5"})
        assert trace(client.update_trace_settings("kit", {"trace_count": ["9"]})) == TRACE | {
            "trace_rate": ["5"],
            "trace_count": ["9"],
        }
        assert trace(client.get_trace_settings("several")) == TRACE | {"trace_rate": ["5"]}
    finally:
        client.update_trace_settings("kit", {"trace_count": None})
        client.update_trace_settings(settings={"trace_rate": None})
    assert trace(client.get_trace_settings("kit")) == TRACE


@pytest.mark.parametrize(("model", "settings"), [("nope", {}), ("kit:embed", {}), ("", {"trace_level": ["TENSORS"]})])
def test_wrong_trace_settings_are_invalid_arguments(client, model, settings):
    with pytest.raises(InferenceServerException) as raised:
        client.update_trace_settings(model, settings)

    assert raised.value.status() == "StatusCode.INVALID_ARGUMENT"


def test_log_settings_take_effect_at_once(export):
    options = ("--log-format", "ISO8601", "--log-verbose", "1")
    with ServerProcess(export("module"), *options) as process:
        process.wait_until_ready(START_S)
        started = process.end_of_log()
        with triton.InferenceServerClient(process.address) as client:
            before = client.get_log_settings(as_json=True)["settings"]
            client.update_log_settings({"log_format": "default", "log_verbose_level": 0})
            after = client.get_log_settings(as_json=True)["settings"]
        assert process.stop(STOP_S) == 0
        log = process.end_of_log()

    assert (before["log_format"]["string_param"], before["log_verbose_level"]["uint32_param"]) == ("ISO8601", 1)
    assert (after["log_format"]["string_param"], after["log_verbose_level"]["uint32_param"]) == ("default", 0)
    assert re.search(r"Z DEBUG service\.warm_up: warmed up", started)
    assert re.search(r"Z INFO service\.server: ready", started)
    assert re.search(r"I\d{4} .* service\.server\] stopped", log)
