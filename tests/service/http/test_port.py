"""The HTTP port answers honest clients at once, whatever the others do."""

import http.client
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from http import HTTPStatus

import pytest

from service.http import port as port_module
from service.http.exchange import Page
from service.http.port import HttpPort

WAIT_S = 30


def pages(request):
    if request.target == "/fails":
        raise RuntimeError("a defect")
    if request.target == "/large":
        return Page(b"x" * 50_000_000)
    return Page(f"{request.target} {request.accept}".encode(), status=HTTPStatus.OK)


@pytest.fixture
def served():
    with closing(HttpPort("127.0.0.1", 0, pages)) as port:
        yield port


def connect(port):
    host, number = port.address.rsplit(":", 1)
    return socket.create_connection((host.strip("[]"), int(number)), timeout=WAIT_S)


def get(port, path="/page", method="GET", **headers):
    host, number = port.address.rsplit(":", 1)
    with closing(http.client.HTTPConnection(host.strip("[]"), int(number), timeout=WAIT_S)) as connection:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


def raw(port, data):
    """Send bytes and return everything that comes back until the server closes."""
    with connect(port) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        received = b""
        while part := client.recv(65536):
            received += part
        return received


IN_A_NETWORK_OF_ITS_OWN = """
import socket, subprocess
from contextlib import closing
from service.http.port import HttpPort
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with closing(HttpPort("::", 0, None)) as port:
    for host in ("127.0.0.1", "::1"):
        socket.create_connection((host, int(port.address.rpartition(":")[2])), 5).close()
"""


def test_at_all_addresses_of_ipv6_callers_over_ipv4_are_taken_too():
    """Probes and Prometheus of a cluster with both come over either; gRPC listens for both at ``::``."""
    alone = ["unshare", "--net"]
    if subprocess.run([*alone, "ip", "link", "set", "lo", "up"], check=False, capture_output=True).returncode:
        pytest.skip("this user may not make networks")

    run = subprocess.run(
        [*alone, sys.executable, "-c", IN_A_NETWORK_OF_ITS_OWN],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )

    assert run.returncode == 0, run.stderr


def test_page_is_answered_and_the_connection_closed(served):
    status, body, headers = get(served, "/a?b=c", accept="text/plain")

    assert (status, body) == (200, b"/a?b=c text/plain")
    assert headers["content-length"] == str(len(body))
    assert headers["connection"] == "close"
    assert headers["x-content-type-options"] == "nosniff"


def test_head_has_no_body(served):
    status, body, headers = get(served, method="HEAD")

    assert (status, body) == (200, b"")
    assert headers["content-length"] == "6"


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_are_refused(served, method):
    status, _, headers = get(served, method=method)

    assert status == 405
    assert headers["allow"] == "GET, HEAD"


def test_defect_is_told_by_a_fixed_text(served, caplog):
    assert get(served, "/fails")[:2] == (500, b"Internal Server Error\n")
    assert "a defect" in caplog.text
    assert get(served)[0] == 200


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n", b"400"),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 5000 + b"\r\n", b"431"),
        (b"GET / HTTP/1.1\r\nhost: x", b"400"),
        (b"\x00\x01\x02\xff" * 100 + b"\r\n\r\n", b"400"),
    ],
)
def test_what_is_no_request_gets_an_error_and_nothing_else_happens(served, data, status, caplog):
    assert raw(served, data).split(b" ")[1] == status
    assert get(served)[0] == 200
    assert caplog.text == ""


def test_client_that_says_nothing_and_leaves_is_no_event(served, caplog):
    assert raw(served, b"") == b""
    assert caplog.text == ""


@contextmanager
def quick_end(monkeypatch):
    monkeypatch.setattr(port_module, "_EXCHANGE_S", 0.2)
    with closing(HttpPort("127.0.0.1", 0, pages)) as port:
        yield port


def test_client_that_sends_too_slowly_is_cut_off(monkeypatch):
    with quick_end(monkeypatch) as port, connect(port) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\n")
        assert slow.recv(1) == b""


def test_client_that_does_not_read_is_cut_off(monkeypatch):
    with quick_end(monkeypatch) as port, connect(port) as slow:
        slow.sendall(b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n")
        deadline = time.monotonic() + WAIT_S
        while port._open:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_who_holds_every_connection_shuts_nobody_out(served):
    held = [connect(served) for _ in range(200)]
    try:
        for client in held:
            client.sendall(b"GET")
        started = time.monotonic()
        for _ in range(20):
            assert get(served)[0] == 200
        assert time.monotonic() - started < port_module._EXCHANGE_S
        assert len(served._open) <= port_module._MAX_CONNECTIONS
    finally:
        for client in held:
            client.close()


def test_answers_while_another_thread_is_busy(served):
    stop = threading.Event()

    def burn():
        while not stop.is_set():
            sum(range(1000))

    burning = threading.Thread(target=burn)
    burning.start()
    try:
        assert get(served)[0] == 200
    finally:
        stop.set()
        burning.join()


def test_port_that_is_taken_is_named(served):
    _, number = served.address.rsplit(":", 1)

    with pytest.raises(OSError, match=rf"cannot listen for HTTP on 127.0.0.1, port {number}: Address already in use"):
        HttpPort("127.0.0.1", int(number), pages)


def test_address_that_is_none_is_named():
    with pytest.raises(OSError, match="cannot listen for HTTP on not an address, port 0"):
        HttpPort("not an address", 0, pages)


def test_close_ends_the_thread_and_frees_the_port_with_clients_connected():
    port = HttpPort("127.0.0.1", 0, pages)
    _, number = port.address.rsplit(":", 1)
    with connect(port) as client:
        client.sendall(b"GET")
        get(port)
        port.close()

        assert not port._thread.is_alive()
        with closing(HttpPort("127.0.0.1", int(number), pages)) as again:
            assert get(again)[0] == 200
