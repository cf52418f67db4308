from pathlib import Path

import pytest
from pydantic import ValidationError

from batching.options import Oversize
from service.settings import Settings
from tests.service.option_values import VALUES


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SIGNET_{name.upper()}", raising=False)


def test_every_option_is_tested_here_with_another_value_than_its_default():
    assert set(VALUES) == set(Settings.model_fields)
    for name, (_, value) in VALUES.items():
        assert getattr(Settings(), name) != value


@pytest.mark.parametrize("name", VALUES)
def test_environment_variable_sets_its_option_and_no_other(monkeypatch, name):
    text, value = VALUES[name]
    monkeypatch.setenv(f"SIGNET_{name.upper()}", text)

    assert Settings() == Settings.model_construct(**{**Settings.model_construct().model_dump(), name: value})
    assert type(getattr(Settings(), name)) is type(value)


@pytest.mark.parametrize("name", VALUES)
def test_given_value_wins_over_the_environment(monkeypatch, name):
    default = getattr(Settings(), name)
    monkeypatch.setenv(f"SIGNET_{name.upper()}", VALUES[name][0])

    assert getattr(Settings(**{name: default}), name) == default


@pytest.mark.parametrize("name", VALUES)
def test_empty_environment_variable_is_as_good_as_none(monkeypatch, name):
    monkeypatch.setenv(f"SIGNET_{name.upper()}", "")

    assert Settings() == Settings.model_construct()


def test_repeated_values_in_the_environment_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv("SIGNET_MODEL_REPOSITORY", "/a,b/c,")
    monkeypatch.setenv("SIGNET_GRPC_ADDRESS", "127.0.0.1,unix:/run/signet.sock")

    assert Settings().model_repository == (Path("/a"), Path("b/c"))
    assert Settings().grpc_address == ("127.0.0.1", "unix:/run/signet.sock")


def test_comma_in_a_given_value_separates_nothing():
    assert Settings(model_repository=["/a,b"]).model_repository == (Path("/a,b"),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("repository_poll_secs", "0"),
        ("repository_poll_secs", "0.5"),
        ("model_config_name", "../secret"),
        ("grpc_port", "-1"),
        ("grpc_port", "65536"),
        ("grpc_port", "http"),
        ("grpc_address", ","),
        ("grpc_unix_socket_mode", "rw"),
        ("grpc_unix_socket_mode", "0880"),
        ("grpc_unix_socket_mode", "66"),
        ("default_max_batch_size", "-1"),
        ("default_max_batch_size", "2147483648"),
        ("max_queue_delay_us", "0.5"),
        ("max_queue_delay_us", "18446744073709551616"),
        ("oversize_requests", "CUT"),
        ("exit_on_error", "maybe"),
        ("instance_count", "0"),
        ("intra_op_threads", "-1"),
        ("intra_op_threads", "2147483648"),
        ("inter_op_threads", "-1"),
        ("inter_op_threads", "2147483648"),
        ("drain_delay", "-0.1"),
        ("drain_delay", "inf"),
        ("drain_timeout", "nan"),
        ("log_verbose", "-1"),
    ],
)
def test_value_out_of_range_is_refused(monkeypatch, name, text):
    monkeypatch.setenv(f"SIGNET_{name.upper()}", text)

    with pytest.raises(ValidationError) as caught:
        Settings()
    assert [fault["loc"][0] for fault in caught.value.errors()] == [name]


def test_unknown_option_is_refused():
    with pytest.raises(ValidationError, match="grpc_prot"):
        Settings(grpc_prot=1)


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("127.0.0.1", "127.0.0.1:9000"),
        ("0.0.0.0", "0.0.0.0:9000"),  # noqa: S104 - a text, nothing is bound
        ("localhost", "localhost:9000"),
        ("::1", "[::1]:9000"),
        ("unix:/run/signet.sock", "unix:/run/signet.sock"),
    ],
)
def test_addresses_are_written_as_grpc_wants_them(address, target):
    assert Settings(grpc_address=[address], grpc_port=9000).grpc_targets() == [target]


def test_defaults_are_a_loopback_address_and_tritons_port():
    assert Settings().grpc_targets() == ["127.0.0.1:8001"]


def test_what_models_leave_open_comes_from_the_options():
    settings = Settings(
        default_max_batch_size=8,
        max_queue_delay_us=300,
        default_signature="embed",
        disable_auto_complete_config=True,
        instance_count=5,
    )
    defaults = settings.config_defaults()

    assert defaults.default_max_batch_size == 8
    assert defaults.max_queue_delay_us == 300
    assert defaults.default_signature == "embed"
    assert not defaults.auto_complete
    assert defaults.instance_count == 5


def test_without_options_requests_are_batched_cut_and_configurations_completed():
    assert Settings().config_defaults().auto_complete
    assert Settings().config_defaults().default_max_batch_size > 1
    assert Settings().oversize_requests is Oversize.CUT
