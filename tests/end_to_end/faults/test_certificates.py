"""Certificates that cannot be read: no start without them, and no end of a server that has read good ones."""

import signal
import socket
import ssl
import subprocess
import sys

import pytest
import trustme

from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.faults.plain_process import server_that_logs_to
from tests.end_to_end.readings import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]


@pytest.fixture(scope="module")
def authority():
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def pair(authority, tmp_path):
    """Return where a certificate and its key lie, after putting new ones there."""
    paths = tmp_path / "cert.pem", tmp_path / "key.pem"
    write_pair(authority, *paths)
    return paths


def write_pair(authority, certificate, key):
    made = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
    key.write_bytes(made.private_key_pem.bytes())


def cut(path):
    path.write_bytes(path.read_bytes()[:100])


def replace_by_directory(path):
    path.unlink()
    path.mkdir()


def options(certificate, key):
    return ["--grpc-use-ssl", "true", "--grpc-server-cert", certificate, "--grpc-server-key", key]


SPOILED = {"is cut": cut, "is gone": lambda path: path.unlink(), "is a directory": replace_by_directory}


@pytest.mark.parametrize("how", SPOILED)
def test_no_start_with_a_key_that_cannot_be_read(pair, tmp_path, note, how):
    SPOILED[how](pair[1])
    command = [sys.executable, "-m", "service", "serve", tmp_path, "--model-control-mode", "explicit"]
    command += ["--grpc-port", "0", "--metrics-port", "0", *options(*pair)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=START_S, check=False)
    own = [line for line in run.stderr.splitlines() if line.startswith("signet: ")]
    note(
        f"start with a key that {how}",
        "exit code 1, one line that names the file",
        f"exit code {run.returncode}, {' '.join(own).rpartition(': ')[2]}",
    )
    assert run.returncode == 1
    assert [str(pair[1]) in line for line in own] == [True]
    assert "listening for gRPC" not in run.stderr


def test_files_that_cannot_be_read_leave_the_last_good_pair_in_force(authority, pair, tmp_path, note):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = tmp_path / "log"

    def served():
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=START_S)

    warnings = 0
    mode = ["--model-control-mode", "explicit", "--grpc-address", "127.0.0.1", "--grpc-port", str(port)]
    arguments = [*mode, *map(str, options(*pair))]
    with (
        log.open("wb") as stream,
        server_that_logs_to(stream, tmp_path / "socket", [tmp_path], *arguments) as (process, _),
    ):
        first = served()
        for spoil in SPOILED.values():
            spoil(pair[1])
            warnings += 1
            wait_until(lambda: served() == first and log.read_text().count("stays in force") >= warnings)  # noqa: B023
            assert served() == first
            if pair[1].is_dir():
                pair[1].rmdir()
            else:
                pair[1].unlink(missing_ok=True)
            write_pair(authority, *pair)
            wait_until(lambda: served() != first)  # noqa: B023
            first = served()
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOP_S)
    told = log.read_text().count("stays in force")
    note(
        f"keys that can no longer be read: each {', '.join(SPOILED)} for a while",
        "new connections get the last good pair, then the new one; one warning each; exit code 0",
        f"so it was; {told} warnings; exit code {code}",
    )
    assert (told, code) == (len(SPOILED), 0)
