"""Who makes a call, as far as the server can know."""

import ipaddress
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Caller:
    """The other end of a connection.

    Attributes:
        is_local: whether it is a process of this host: the connection came over loopback or a Unix socket, and straight
            to this server, not through another one that would stand for every peer.
    """

    is_local: bool


UNKNOWN: Final = Caller(is_local=False)
"""A caller of whom nothing is known."""


def caller_of(peer: str) -> Caller:
    """Return who is behind a peer as grpcio names it, such as ``ipv4:127.0.0.1:40000`` or ``unix:``.

    What cannot be read counts as not local.
    """
    kind, _, rest = peer.partition(":")
    if kind == "unix":
        return Caller(is_local=True)
    # grpcio percent-encodes the brackets of an IPv6 address.
    host = rest.replace("%5B", "[").replace("%5D", "]").rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return Caller(is_local=False)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return Caller(is_local=(mapped or address).is_loopback)
