"""Bad connections, thousands of them: afterwards the server answers as before and holds nothing of theirs.

Each test writes what it measured (``pytest -s``); docs/native-transport.md tells the figures.
"""

import contextlib
import random
import resource
import socket
import struct
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb

from tests.end_to_end.calls import call, rows, texts

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the connection ends with RST instead of FIN


def report(text):
    sys.stdout.write(f"\n{text}\n")


def connect(server):
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def descriptors(server):
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def settle(server, wanted, limit_s=30):
    """Wait until the server has closed what its clients left; return how many descriptors it has then."""
    deadline = time.monotonic() + limit_s
    while descriptors(server) > wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return descriptors(server)


@contextmanager
def nothing_left(server, client, what, max_growth_mib):
    """Check that a block leaves no descriptor and little memory behind, and that calls are answered after it."""
    call(client, "kit", {"x": rows(3)})
    before, memory = descriptors(server), server.resident_mib()
    yield
    after = settle(server, before)
    growth = server.resident_mib() - memory
    report(f"{what}: descriptors {before} -> {after}, {growth:+.1f} MiB")
    np.testing.assert_array_equal(call(client, "kit", {"x": rows(3)})["y"], rows(3)[:, :2] * 10)
    assert after <= before
    assert growth < max_growth_mib


def junk(chance):
    """Return odd bytes: noise, another protocol, a good beginning and then noise, frames with odd lengths."""
    noise = chance.randbytes(chance.randrange(1, 4000))
    frame = chance.randbytes(3) + bytes([chance.randrange(12), chance.randrange(256)]) + chance.randbytes(4)
    return chance.choice([
        noise,
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + noise,
        PREFACE + noise,
        PREFACE + SETTINGS + frame + noise,
        PREFACE[: chance.randrange(len(PREFACE))],
    ])  # fmt: skip


def test_2_000_connections_of_noise_leave_nothing(server, client):
    chance = random.Random(7)
    with nothing_left(server, client, "2,000 connections of noise", 30):
        for _ in range(2000):
            with connect(server) as connection:
                if chance.random() < 0.5:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                with contextlib.suppress(ConnectionError):  # the server has had enough of it
                    connection.sendall(junk(chance))


def test_2_000_idle_connections_cost_little_and_hold_up_nobody(server, client):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    with nothing_left(server, client, "2,000 idle connections, afterwards", 60), ExitStack() as stack:
        memory = server.resident_mib()
        for _ in range(2000):
            stack.enter_context(connect(server)).sendall(PREFACE + SETTINGS)
        call(client, "kit", {"x": rows(3)})
        report(f"2,000 idle connections: {server.resident_mib() - memory:+.1f} MiB")


def test_clients_killed_in_the_middle_of_large_requests_leave_nothing(server, client):
    message = pb.ModelInferRequest(model_name="kit", raw_input_contents=[bytes(32_000_000)]).SerializeToString()
    with nothing_left(server, client, "200 requests of 32 MB, cut by a reset", 100):
        for number in range(200):
            with connect(server) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.sendall(PREFACE + SETTINGS + request_head())
                body = b"\0" + struct.pack(">I", len(message)) + message
                for start in range(0, 60_000, 16_000):  # as much as the window of a stream allows at first
                    chunk = body[start : min(start + 16_000, 60_000)]
                    connection.sendall(len(chunk).to_bytes(3, "big") + b"\0\0\0\0\0\1" + chunk)
                if number % 2:
                    connection.recv(100)


def request_head():
    """Return a HEADERS frame that begins a ModelInfer call; plain HPACK literals."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/inference.GRPCInferenceService/ModelInfer",
        ":authority": "a",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )
    return len(block).to_bytes(3, "big") + b"\1\4\0\0\0\1" + block


def test_clients_that_send_a_byte_at_a_time_hold_up_nobody(server, client):
    with nothing_left(server, client, "50 clients that send 4 bytes a second", 30), ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(50)]
        head = PREFACE + SETTINGS + request_head()
        slowest = 0.0
        for position in range(0, 80, 4):
            for connection in slow:
                connection.sendall(head[position : position + 4])
            started = time.monotonic()
            call(client, "kit", {"x": rows(3)})
            slowest = max(slowest, time.monotonic() - started)
        report(f"beside slow clients the slowest of 20 calls took {1000 * slowest:.0f} ms")


def test_messages_of_300_mb_pass_beside_small_ones(server, client):
    large = texts(bytes(300_000_000))
    done = threading.Event()
    slowest = []

    def ask():
        with triton.InferenceServerClient(server.address) as other:
            while not done.is_set():
                started = time.monotonic()
                call(other, "kit", {"x": rows(1)})
                slowest.append(time.monotonic() - started)

    with nothing_left(server, client, "3 messages of 300 MB", 1000):
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(3):
                assert call(client, "kit", {"text": large}, "text")["text"][0] == large[0]
        finally:
            done.set()
            asking.join()
        report(f"beside messages of 300 MB the slowest of {len(slowest)} calls took {1000 * max(slowest):.0f} ms")
