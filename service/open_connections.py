"""How many connections clients hold, as the kernel tells it: no transport says it by itself."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

_NET: Final = Path("/proc/self/net")
_UNIX: Final = "unix:"

# Fields of the kernel's tables, see proc(5) and include/net/tcp_states.h.
_TCP_ESTABLISHED: Final = "01"
_UNIX_CONNECTED: Final = "03"
_UNIX_PATH_FIELD: Final = 7


def count_connections(addresses: Sequence[str], net: Path = _NET) -> int | None:
    """Return the connections to some addresses at this moment; None where the kernel does not tell.

    Args:
        addresses: as gRPC writes them, with the ports that were taken. Connections to the same port of another address
            of this host count, too.
        net: the directory with the kernel's tables of sockets.
    """
    ports = {f"{int(address.rpartition(':')[2]):04X}" for address in addresses if not address.startswith(_UNIX)}
    paths = {_path(address) for address in addresses if address.startswith(_UNIX)}
    if not net.is_dir():
        return None
    tcp = sum(_is_tcp_of(row, ports) for name in ("tcp", "tcp6") for row in _rows(net / name)) if ports else 0
    return tcp + (sum(_is_unix_of(row, paths) for row in _rows(net / "unix")) if paths else 0)


def _path(address: str) -> str:
    """Return the path of ``unix:path`` and ``unix:///path``, as the kernel has it."""
    return re.sub("^//(?=/)", "", address.removeprefix(_UNIX))


def _rows(table: Path) -> Iterable[list[str]]:
    if not table.exists():  # a kernel without IPv6 has no such table
        return []
    lines = table.read_text("utf-8", "surrogateescape").splitlines()
    return (line.split(maxsplit=_UNIX_PATH_FIELD) for line in lines[1:])


def _is_tcp_of(row: Sequence[str], ports: Iterable[str]) -> bool:
    return row[3] == _TCP_ESTABLISHED and row[1].rpartition(":")[2] in ports


def _is_unix_of(row: Sequence[str], paths: Iterable[str]) -> bool:
    return len(row) > _UNIX_PATH_FIELD and row[5] == _UNIX_CONNECTED and row[_UNIX_PATH_FIELD] in paths
