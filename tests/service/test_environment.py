"""Variables that only look like options neither stop the server nor pass unseen."""

import re
from pathlib import Path

import pytest

from service.environment import _CLIENTS, clean

OPTIONS = ("grpc_port", "metrics_port", "drain_timeout")


@pytest.mark.parametrize("value", ["tcp://10.96.0.7:8001", "udp://[fd00::7]:8001"])
def test_the_address_of_a_service_is_no_port(value):
    """Kubernetes sets it in every pod beside a Service that is called signet-grpc."""
    environment = {"SIGNET_GRPC_PORT": value, "SIGNET_METRICS_PORT": "8002"}

    (warning,) = clean(environment, OPTIONS)

    assert environment == {"SIGNET_METRICS_PORT": "8002"}
    assert f"SIGNET_GRPC_PORT={value}" in warning
    assert "Service signet-grpc " in warning


def test_what_else_kubernetes_tells_of_services_is_left_alone_without_a_word():
    environment = {
        "SIGNET_SERVICE_HOST": "10.96.0.7",
        "SIGNET_SERVICE_PORT": "8001",
        "SIGNET_SERVICE_PORT_GRPC": "8001",
        "SIGNET_PORT": "tcp://10.96.0.7:8001",
        "SIGNET_PORT_8001_TCP": "tcp://10.96.0.7:8001",
        "SIGNET_GRPC_PORT_8001_TCP_PROTO": "tcp",
        "SIGNET_GRPC_PORT_8001_TCP_ADDR": "10.96.0.7",
        "SIGNET_GRPC_PORT_8001_TCP_PORT": "8001",
    }
    before = dict(environment)

    assert clean(environment, OPTIONS) == []
    assert environment == before


def test_a_misspelt_option_is_told_of():
    environment = {"SIGNET_DRAIN_TIMOUT": "5", "SIGNET_DRAIN_TIMEOUT": "5", "OTHER": "x"}

    assert clean(environment, OPTIONS) == ["SIGNET_DRAIN_TIMOUT is no option of the server and is ignored"]


def test_a_wrong_value_stays_for_the_check_of_options():
    environment = {"SIGNET_GRPC_PORT": "many", "SIGNET_DRAIN_TIMEOUT": "tcp://10.96.0.7:8001"}

    assert clean(environment, OPTIONS) == []
    assert set(environment) == {"SIGNET_GRPC_PORT", "SIGNET_DRAIN_TIMEOUT"}


def test_variables_of_the_clients_are_known():
    clients = Path(__file__).parents[2] / "clients"
    named = {name for file in clients.rglob("*.py") for name in re.findall(r'"(SIGNET_[A-Z_]+)"', file.read_text())}

    assert named == _CLIENTS
