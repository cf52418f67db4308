"""Unix sockets: whose file it is, and who may connect."""

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SCHEME: Final = "unix:"

_CONNECT_S: Final = 1.0


@contextlib.contextmanager
def private_socket(address: str, mode: int) -> Iterator[None]:
    """Let a Unix socket be bound inside the block, with its permissions from the first moment on.

    A server that was killed leaves its socket behind, and gRPC removes whatever socket it finds before it binds, also
    one on which another server listens: that one would go on without ever hearing from a client again. So only a
    socket that refuses connections may be replaced.

    Args:
        address: where the server is to listen; any that does not begin with ``unix:`` passes.
        mode: permissions of the socket's file, such as 0o660; to connect takes the right to write.

    Raises:
        OSError: another server listens there, or the path is that of something else.
    """
    if not address.startswith(SCHEME):
        yield
        return
    _check_free(Path(address.removeprefix(SCHEME)))
    # Changing the mode afterwards would leave a moment in which others may connect.
    before = os.umask(0o777 & ~mode)
    try:
        yield
    finally:
        os.umask(before)


def _check_free(path: Path) -> None:
    try:
        kind = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(kind):
        raise OSError(f"cannot listen on {SCHEME}{path}: there is something that is no socket")
    if _is_answered(path):
        raise OSError(f"cannot listen on {SCHEME}{path}: another server does")


def _is_answered(path: Path) -> bool:
    """Whether somebody may be listening. Only a refused connection says for certain that nobody does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
    return True
