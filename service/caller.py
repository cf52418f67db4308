"""Who makes a call, as far as the server can know."""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
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

LOCAL: Final = Caller(is_local=True)
"""A process of this host."""

_PEERS_KEPT: Final = 1024


@lru_cache(_PEERS_KEPT)
def caller_of(peer: str) -> Caller:
    """Return who is behind a peer as gRPC names it, such as ``ipv4:127.0.0.1:40000`` or ``unix:``.

    What cannot be read counts as not local. A peer is one connection, over which many calls come.
    """
    kind, _, rest = peer.partition(":")
    # grpcio percent-encodes the brackets of an IPv6 address.
    host = rest.replace("%5B", "[").replace("%5D", "]").rpartition(":")[0]
    return LOCAL if kind == "unix" or _is_loopback(host) else UNKNOWN


def is_local_address(address: str) -> bool:
    """Return whether only processes of this host can reach an address to listen at, such as ``127.0.0.1:8001``.

    A name counts as not local: what it stands for is the resolver's business.
    """
    return address.startswith("unix:") or _is_loopback(address.rpartition(":")[0])


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
