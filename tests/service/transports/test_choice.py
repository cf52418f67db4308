import pytest

from service.errors import LoadError
from service.settings import Settings
from service.transports import choice
from service.transports.choice import choose

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the tests ask for it


def chosen(**settings):
    kind, reason = choose(Settings(**settings))
    return kind.value, reason


@pytest.mark.parametrize("addresses", [("127.0.0.1",), ("::1", "unix:/run/signet.sock"), ("unix:/run/signet.sock",)])
def test_auto_takes_native_where_only_this_host_can_call(addresses):
    assert chosen(grpc_address=addresses)[0] == "native"


@pytest.mark.parametrize("address", [EVERYWHERE, "::", "10.1.2.3", "localhost"])
def test_auto_takes_grpcio_where_others_can_call_and_names_the_address(address):
    kind, reason = chosen(grpc_address=("127.0.0.1", address))

    assert kind == "grpcio"
    assert address in reason


UNSUPPORTED = [
    ({"grpc_infer_response_compression_level": "low"}, "--grpc-infer-response-compression-level"),
    ({"grpc_max_connection_age": 60_000}, "--grpc-max-connection-age"),
    ({"grpc_max_connections": 10}, "--grpc-max-connections"),
    ({"grpc_use_ssl": True}, "--grpc-use-ssl"),
    ({"grpc_use_ssl_mutual": True}, "--grpc-use-ssl"),
]


@pytest.mark.parametrize(("settings", "option"), UNSUPPORTED)
def test_option_that_only_grpcio_has_decides_and_is_named(settings, option):
    kind, reason = chosen(**settings)

    assert kind == "grpcio"
    assert option in reason
    with pytest.raises(LoadError, match=f"--transport native: .*{option}"):
        chosen(transport="native", **settings)


def test_without_the_package_auto_takes_grpcio_and_native_is_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(choice, "_PACKAGE", "no_such_package")

    assert chosen() == ("grpcio", "the package pygrpc-native is not installed")
    with pytest.raises(LoadError, match="pygrpc-native is not installed"):
        chosen(transport="native")


def test_what_is_asked_for_is_taken():
    assert chosen(transport="grpcio") == ("grpcio", "as asked for")
    assert chosen(transport="native", grpc_address=(EVERYWHERE,)) == ("native", "as asked for")
