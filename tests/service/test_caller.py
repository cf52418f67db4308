"""Who counts as a process of this host."""

import pytest

from service.caller import caller_of


@pytest.mark.parametrize(
    "peer",
    ["ipv4:127.0.0.1:40000", "ipv4:127.8.9.10:1", "ipv6:[::1]:40000", "ipv6:%5B::1%5D:40000", "unix:", "unix:/run/s"],
)
def test_loopback_and_unix_sockets_are_local(peer):
    assert caller_of(peer).is_local


@pytest.mark.parametrize(
    "peer",
    ["ipv4:10.0.0.7:40000", "ipv6:[fe80::1]:1", "ipv6:[::ffff:10.0.0.7]:1", "ipv4:localhost:1", "unknown", "", "ipv4:"],
)
def test_everybody_else_is_not(peer):
    assert not caller_of(peer).is_local


def test_a_loopback_address_written_as_ipv6_is_local():
    assert caller_of("ipv6:[::ffff:127.0.0.1]:40000").is_local
