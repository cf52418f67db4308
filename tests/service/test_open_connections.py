"""Connections are counted as the kernel tells of them."""

import socket
from contextlib import ExitStack

import pytest

from service.open_connections import count_connections


def listen(stack, family, place):
    """Return an address that somebody listens at, and how to connect to it."""
    listening = stack.enter_context(socket.socket(family))
    listening.bind(place)
    listening.listen()
    return listening


@pytest.mark.parametrize(
    ("family", "host", "text"),
    [(socket.AF_INET, "127.0.0.1", "127.0.0.1:{}"), (socket.AF_INET6, "::1", "[::1]:{}")],
)
def test_connections_to_a_port_count_on_its_side_alone_and_while_they_last(family, host, text):
    with ExitStack() as stack:
        try:
            listening, other = listen(stack, family, (host, 0)), listen(stack, family, (host, 0))
        except OSError:
            pytest.skip("this machine has no IPv6")
        address = text.format(listening.getsockname()[1])
        assert count_connections([address]) == 0
        with ExitStack() as clients:
            for _ in range(3):
                clients.enter_context(socket.socket(family)).connect(listening.getsockname())
                stack.enter_context(listening.accept()[0])
            clients.enter_context(socket.socket(family)).connect(other.getsockname())
            assert count_connections([address]) == 3
        assert count_connections([address]) == 0


def test_connections_to_unix_sockets_count_beside_others(tmp_path):
    with ExitStack() as stack:
        path = str(tmp_path / "a socket")
        listening = listen(stack, socket.AF_UNIX, path)
        for _ in range(2):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(path)
            stack.enter_context(listening.accept()[0])
        tcp = listen(stack, socket.AF_INET, ("127.0.0.1", 0))
        stack.enter_context(socket.create_connection(tcp.getsockname()))

        assert count_connections([f"unix:{path}"]) == 2
        assert count_connections([f"unix://{path}", f"127.0.0.1:{tcp.getsockname()[1]}"]) == 3
        assert count_connections([f"unix:{tmp_path}/another"]) == 0


def test_nothing_is_told_where_the_kernel_does_not_tell(tmp_path):
    assert count_connections(["127.0.0.1:8001"], tmp_path / "nothing") is None


def test_kernel_without_ipv6_tells_of_the_others(tmp_path):
    row = "   0: 0100007F:1F41 0100007F:9C40 01 00000000:00000000 00:00000000 00000000     0        0 6352 1 0 20\n"
    (tmp_path / "tcp").write_text("  sl  local_address rem_address   st\n" + row)

    assert count_connections(["127.0.0.1:8001"], tmp_path) == 1
