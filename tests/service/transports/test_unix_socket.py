"""A Unix socket is taken over from a dead server, never from a live one, and open to those it is meant for alone."""

import asyncio
import os
import socket
import stat
import subprocess
import sys

import grpc
import pytest

from protos import grpc_service_pb2 as pb
from protos import grpc_service_pb2_grpc
from service.transports.unix_socket import private_socket
from tests.service.serving import WAIT_S, kit, serving
from tests.service.transports.channels import bind


@pytest.fixture
def path(tmp_path):
    return tmp_path / "signet.sock"


def with_transport(path, check, *, socket_mode=0o660):
    """Run ``check(address)`` beside a transport on a Unix socket, within a bounded time."""

    async def main():
        with serving(kit()) as served:
            transport = bind(served.servicer, addresses=[f"unix:{path}"], grpc_unix_socket_mode=f"{socket_mode:o}")
            await transport.start()
            try:
                return await check(transport.addresses[0])
            finally:
                await transport.stop(0)

    return asyncio.run(asyncio.wait_for(main(), 2 * WAIT_S))


async def is_live(address):
    async with grpc.aio.insecure_channel(address) as channel:
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return (await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live


def leave_stale_socket(path):
    """Do what a server does that is ended by SIGKILL: its socket stays."""
    program = (
        "import os, signal, socket, sys; s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen();"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program, path], check=False)
    assert stat.S_ISSOCK(path.stat().st_mode)


@pytest.mark.usefixtures("each_transport")
def test_socket_of_a_killed_server_is_taken_over(path):
    leave_stale_socket(path)

    assert with_transport(path, is_live)


@pytest.mark.usefixtures("each_transport")
def test_live_server_keeps_its_socket_and_goes_on(path):
    async def second_server_comes(address):
        with serving(kit()) as served, pytest.raises(OSError, match=f"unix:{path}: another server does"):
            bind(served.servicer, addresses=[address])
        return await is_live(address)

    assert with_transport(path, second_server_comes)


def test_server_that_takes_no_connections_at_the_moment_keeps_its_socket(path):
    with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as client:
        busy.bind(str(path))
        busy.listen(0)
        client.connect(str(path))  # the queue of those who wait is full now
        with pytest.raises(OSError, match="another server does"), private_socket(f"unix:{path}", 0o660):
            pass


def test_file_that_is_no_socket_is_left_alone(path):
    path.write_text("precious")
    with pytest.raises(OSError, match="no socket"), private_socket(f"unix:{path}", 0o660):
        pass

    assert path.read_text() == "precious"


def test_link_to_a_socket_elsewhere_is_left_alone(path, tmp_path):
    path.symlink_to(tmp_path / "elsewhere.sock")
    with pytest.raises(OSError, match="no socket"), private_socket(f"unix:{path}", 0o660):
        pass


@pytest.mark.usefixtures("each_transport")
@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_socket_has_the_permissions_asked_for(path, mode):
    async def permissions(_):
        return stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - one look at a local file

    assert with_transport(path, permissions, socket_mode=mode) == mode


def test_permissions_of_other_files_are_as_before(path):
    before = os.umask(0o027)
    try:
        with private_socket(f"unix:{path}", 0o600):
            pass
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


@pytest.mark.usefixtures("each_transport")
def test_socket_is_gone_after_the_stop(path):
    assert with_transport(path, is_live)
    assert not path.exists()
