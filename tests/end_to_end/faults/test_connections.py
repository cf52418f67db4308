"""Bad connections, thousands of them: afterwards the server answers as before and holds nothing of theirs.

docs/native-transport.md tells figures.
"""

import contextlib
import random
import resource
import socket
import struct
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.grpc import service_pb2 as pb

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, on_each_transport, rows, texts
from tests.end_to_end.faults.connections import PREFACE, RESET, SETTINGS, connect, data_frame, request_head

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow, on_each_transport]

OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def descriptors(server):
    return len(list(Path(f"/proc/{server.pid}/fd").iterdir()))


def settle(count, server, wanted, limit_s=30):
    """Wait until the server has no more of what is counted than wanted; return how much it has then."""
    deadline = time.monotonic() + limit_s
    while (found := count(server)) > wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


@pytest.fixture
def nothing_left(note):
    """Return a check that a block leaves no descriptor and little memory behind, and that calls are answered after it.

    Freed memory goes back to the system within some 10 s of rest. What the block appends to the list that it gets is
    noted, too.
    """

    @contextmanager
    def checked(server, client, fault, max_growth_mib):
        call(client, "kit", {"x": rows(3)})
        before, memory, further = descriptors(server), server.resident_mib(), []
        yield further
        after = settle(descriptors, server, before)
        np.testing.assert_array_equal(call(client, "kit", {"x": rows(3)})["y"], rows(3)[:, :2] * 10)
        at_once = server.resident_mib() - memory
        growth = settle(ServerProcess.resident_mib, server, memory + max_growth_mib) - memory
        seen = [f"{after - before:+d} descriptors, {growth:+.1f} MiB ({at_once:+.1f} at once)", *further]
        note(fault, "others are answered; nothing is left", "; ".join(seen))
        assert after <= before
        assert growth <= max_growth_mib

    return checked


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


def test_2_000_connections_of_noise_leave_nothing(server, client, nothing_left):
    chance = random.Random(7)
    with nothing_left(server, client, "2,000 connections of noise", 30):
        for _ in range(2000):
            with connect(server) as connection:
                if chance.random() < 0.5:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                with contextlib.suppress(ConnectionError):  # the server has had enough of it
                    connection.sendall(junk(chance))


@contextmanager
def open_files(soft):
    """Set the soft limit of this process and of those that it starts meanwhile; None is the hard limit."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft or hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


def test_2_000_idle_connections_cost_little_and_hold_up_nobody(start, nothing_left):
    with open_files(1024):  # what most shells have
        server = start("kit")
    with (
        open_files(None),
        triton.InferenceServerClient(server.address) as client,
        nothing_left(server, client, "2,000 idle connections", 60) as seen,
        ExitStack() as stack,
    ):
        memory = server.resident_mib()
        for _ in range(2000):
            stack.enter_context(connect(server)).sendall(PREFACE + SETTINGS)
        with triton.InferenceServerClient(server.address, channel_args=OWN_CONNECTION) as further:
            call(further, "kit", {"x": rows(3)}, client_timeout=30)
        seen.append(f"{server.resident_mib() - memory:+.1f} MiB while they were open")


def test_clients_killed_in_the_middle_of_large_requests_leave_nothing(server, client, nothing_left):
    message = pb.ModelInferRequest(model_name="kit", raw_input_contents=[bytes(32_000_000)]).SerializeToString()
    with nothing_left(server, client, "200 requests of 32 MB, cut by a reset", 30):
        for number in range(200):
            with connect(server) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                connection.sendall(PREFACE + SETTINGS + request_head())
                body = b"\0" + struct.pack(">I", len(message)) + message
                for start in range(0, 60_000, 16_000):  # as much as the window of a stream allows at first
                    chunk = body[start : min(start + 16_000, 60_000)]
                    connection.sendall(data_frame(chunk))
                if number % 2:
                    connection.recv(100)


def test_clients_that_send_a_byte_at_a_time_hold_up_nobody(server, client, nothing_left):
    with nothing_left(server, client, "50 clients that send 4 bytes at a time", 30) as seen, ExitStack() as stack:
        slow = [stack.enter_context(connect(server)) for _ in range(50)]
        head = PREFACE + SETTINGS + request_head()
        slowest = 0.0
        for position in range(0, 80, 4):
            for connection in slow:
                connection.sendall(head[position : position + 4])
            started = time.monotonic()
            call(client, "kit", {"x": rows(3)})
            slowest = max(slowest, time.monotonic() - started)
        seen.append(f"slowest of 20 other calls {1000 * slowest:.0f} ms")


def test_messages_of_300_mb_pass_beside_small_ones(server, client, nothing_left):
    large = texts(bytes(300_000_000))
    done = threading.Event()
    slowest = []

    def ask():
        with triton.InferenceServerClient(server.address) as other:
            while not done.is_set():
                started = time.monotonic()
                call(other, "kit", {"x": rows(1)})
                slowest.append(time.monotonic() - started)

    with nothing_left(server, client, "3 messages of 300 MB", 30) as seen:
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for _ in range(3):
                assert call(client, "kit", {"text": large}, "text")["text"][0] == large[0]
        finally:
            done.set()
            asking.join()
        seen.append(f"slowest of {len(slowest)} other calls {1000 * max(slowest):.0f} ms")


def test_last_answer_does_not_stay_until_the_next_call(start, note):
    server = start("kit")
    with triton.InferenceServerClient(server.address) as client:
        call(client, "kit", {"n": np.array(10, np.int32)}, "blow")
        before_mib = server.resident_mib()
        call(client, "kit", {"n": np.array(75_000_000, np.int32)}, "blow")
    growth_mib = settle(ServerProcess.resident_mib, server, before_mib + 30) - before_mib
    note("an answer of 300 MB, and no call after it", "nothing is left", f"{growth_mib:+.1f} MiB")
    assert growth_mib <= 30
    assert server.stop(60) == 0
