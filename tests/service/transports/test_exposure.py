import pytest

from service.settings import Settings
from service.transports.exposure import warn_of_exposure

EVERYWHERE = "0.0.0.0"  # noqa: S104 - the tests ask for it
CALL, READ = "may call it", "may read along"


@pytest.mark.parametrize(
    ("options", "dangers"),
    [
        ({}, [CALL, READ]),
        ({"token_file": "tokens"}, [READ]),
        ({"admin_token_file": "tokens"}, [CALL, READ]),
        ({"grpc_use_ssl": True}, [CALL]),
        ({"grpc_use_ssl": True, "token_file": "tokens"}, []),
        ({"grpc_use_ssl_mutual": True}, []),
    ],
)
def test_address_beyond_loopback_is_told_of_with_what_nothing_protects(caplog, options, dangers):
    warn_of_exposure(Settings(grpc_address=("127.0.0.1", EVERYWHERE, "unix:/run/s"), **options))

    told = [record.getMessage() for record in caplog.records]
    assert len(told) == bool(dangers)
    assert [danger for danger in (CALL, READ) if any(danger in line for line in told)] == dangers
    assert all(line.startswith(EVERYWHERE) for line in told)


def test_loopback_is_not_told_of(caplog):
    warn_of_exposure(Settings())

    assert caplog.records == []
