"""The status page over HTTP: what it tells, and who may try a signature."""

import http.client
import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from service.http.exchange import Page
from service.http.port import HttpPort
from service.settings import Settings
from service.status_page.offer import is_offered, may_try
from service.status_page.pages import TRIAL_PATH, StatusPages
from service.status_page.trial import Trial
from tests.service.serving import Gate, kit, message, rows, serving

WAIT_S = 30
EVERYWHERE = "0.0.0.0"  # noqa: S104 - the tests ask for it
TLS = {"grpc_use_ssl": True}
HOSTILE = "<img src=x onerror=alert(1)>"


@contextmanager
def served(models, *, has_trial=True):
    with serving(models) as made:
        pages = StatusPages(lambda _: Page(b"behind"), made.repository, lambda: True, has_trial=has_trial)
        forms = {TRIAL_PATH: Trial(made.repository, made.data_plane)} if has_trial else {}
        with closing(HttpPort("127.0.0.1", 0, pages, forms=forms)) as port:
            made.address = port.address
            yield made


@pytest.fixture(scope="module")
def page():
    with served({"clip": {1: kit(), 3: kit()}, HOSTILE: {1: kit()}}) as made:
        yield made


def ask(address, method, path, body=None, *, timeout_s=WAIT_S, **headers):
    with closing(http.client.HTTPConnection(address, timeout=timeout_s)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read(), dict(answer.getheaders())


def attempt(address, facts, **headers):
    own = {"Origin": f"http://{address}", "Content_Type": "application/json"}
    status, body, _ = ask(address, "POST", TRIAL_PATH, json.dumps(facts), **(own | headers))
    return status, json.loads(body)


def wish(signature="serving_default", model="clip", version="3", **inputs):
    return {"model": model, "version": version, "signature": signature, "inputs": inputs}


def test_data_are_those_of_the_repository(page):
    page.send(message({"x": rows(1, 2)}, version="3", signature="embed"))
    status, body, _ = ask(page.address, "GET", "/status/data")
    data = json.loads(body)
    (line,) = (
        each
        for each in data["signatures"]
        if (each["model"], each["version"], each["signature"]) == ("clip", "3", "embed")
    )
    counted = page.repository.find("clip", "3").loaded.statistics("embed")

    assert status == 200
    assert (line["requests"], line["rows"], line["runs"], line["failed"]) == (
        counted.success.count, counted.inference_count, counted.execution_count, 0,
    )  # fmt: skip
    assert line["inputs"][0]["text"] == "x FP32[-1,2]"
    assert {"name": HOSTILE, "version": "1", "state": "READY", "reason": ""} in data["models"]


def test_other_paths_are_left_to_the_pages_behind(page):
    assert ask(page.address, "GET", "/metrics")[1] == b"behind"


@pytest.mark.parametrize("path", ["/", "/status/status.js", "/status/status.css", "/status/data"])
def test_page_needs_nothing_from_elsewhere_and_lets_nothing_else_run(page, path):
    status, body, headers = ask(page.address, "GET", path)

    assert status == 200
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert b"://" not in body.replace(b"http://www.w3.org/2000/svg", b"")
    assert not re.search(rb"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|<script>|style=", body)


@pytest.mark.parametrize("path", ["/", "/status/data"])
def test_another_sites_name_for_this_address_shows_nothing(page, path):
    status, body, _ = ask(page.address, "GET", path, Host="evil.example")

    assert status == 403
    assert b"clip" not in body


def test_trial_answers_as_the_model_does(page):
    status, answer = attempt(page.address, wish(x=[[1, 2]]))

    assert status == 200
    assert answer == {
        "version": "3",
        "outputs": [{"text": "y FP32[-1,2]", "shape": [1, 2], "values": [2, 4], "is_cut": False}],
    }
    assert attempt(page.address, wish("text", s="one"))[1]["outputs"][0]["values"] == ["one"]
    assert attempt(page.address, wish("threshold", version=""))[1]["outputs"][0]["values"] == [0.5]


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        (wish(model="dogs"), "'dogs'"),
        (wish("nope"), "nope"),
        (wish("broken"), "no such node"),
        (wish(version="x"), "x"),
        (wish(z=[1]), "no input 'z'"),
        (wish(), "missing required input"),
        (wish(x=[[1]]), "[1,1]"),
        (wish(x="a"), "takes numbers"),
        ([], "expected JSON"),
        ({"model": "clip"}, "expected JSON"),
        (wish() | {"inputs": []}, "expected texts"),
        (wish() | {"model": 1}, "expected texts"),
    ],
)
def test_what_cannot_be_tried_is_told(page, facts, says):
    status, answer = attempt(page.address, facts)

    assert status == 400
    assert says in answer["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"\xff"])
def test_what_is_no_json_is_told(page, body):
    headers = {"Origin": f"http://{page.address}", "Content_Type": "application/json"}

    assert ask(page.address, "POST", TRIAL_PATH, body, **headers)[0] == 400


def test_body_above_the_limit_is_refused(page, monkeypatch):
    monkeypatch.setattr(Trial, "most_bytes", 100)
    headers = {"Origin": f"http://{page.address}", "Content_Type": "application/json"}

    assert ask(page.address, "POST", TRIAL_PATH, b"x" * 101, **headers)[0] == 413


def test_body_in_chunks_is_refused(page):
    headers = {"Origin": f"http://{page.address}", "Content_Type": "application/json"}

    assert ask(page.address, "POST", TRIAL_PATH, iter([b"{", b"}"]), **headers)[0] == 411
    assert ask(page.address, "POST", TRIAL_PATH, **headers, Transfer_Encoding="chunked")[0] == 411


def test_others_are_answered_while_a_body_is_read(page, monkeypatch):
    entered, leave = threading.Event(), threading.Event()

    def read(trial, body):
        entered.set()
        assert leave.wait(WAIT_S)
        return read_body(trial, body)

    read_body = Trial._read
    monkeypatch.setattr(Trial, "_read", read)
    with ThreadPoolExecutor() as threads:
        attempted = threads.submit(attempt, page.address, wish(x=[1, 2]))
        assert entered.wait(WAIT_S)
        try:
            assert ask(page.address, "GET", "/behind", timeout_s=5)[0] == 200
        finally:
            leave.set()

        assert attempted.result()[0] == 200


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "http://evil.example"}, {"Content_Type": "text/plain"}, {"Sec_Fetch_Site": "cross-site"}],
)
def test_another_site_cannot_try_anything(page, headers):
    before = page.repository.find("clip", "3").loaded.statistics().success.count
    status, _ = attempt(page.address, wish(x=[1, 2]), **headers)

    assert status == 403
    assert page.repository.find("clip", "3").loaded.statistics().success.count == before


def test_without_the_form_nothing_can_be_posted():
    with served({"clip": {1: kit()}}, has_trial=False) as made:
        data = json.loads(ask(made.address, "GET", "/status/data")[1])
        own = {"Origin": f"http://{made.address}", "Content_Type": "application/json"}

        assert data["has_trial"] is False
        assert ask(made.address, "POST", TRIAL_PATH, b"{}", **own)[0] == 405


def test_trial_that_nobody_waits_for_any_more_is_not_run(monkeypatch):
    gate = Gate()
    monkeypatch.setattr(Trial, "answer_s", 0.1)
    monkeypatch.setattr("service.http.port._EXCHANGE_S", 0.2)
    with served({"clip": {1: kit(serving_default=gate)}}) as made:
        made.submit(message())
        gate.wait_until_entered()
        with pytest.raises((http.client.HTTPException, OSError)):
            attempt(made.address, wish(version="1", x=[1, 2]))
        gate.opened.set()
        loaded = made.repository.find("clip", "1").loaded

        assert loaded.scheduler.counts().queued_tasks == 0
        assert loaded.statistics().failures


@pytest.mark.parametrize(
    ("options", "page", "form"),
    [
        ({}, True, True),
        ({"metrics_address": "::1"}, True, True),
        ({"metrics_address": EVERYWHERE}, False, False),
        ({"metrics_address": EVERYWHERE, "status_page": "on"}, True, False),
        ({"metrics_address": EVERYWHERE, "status_page": "on", "grpc_address": EVERYWHERE}, True, True),
        ({"metrics_address": EVERYWHERE, "status_page": "on", "grpc_address": ("unix:/s", "::1")}, True, False),
        ({"metrics_address": EVERYWHERE, "status_page": "on", "grpc_address": EVERYWHERE, **TLS}, True, False),
        ({"metrics_address": "somewhere"}, False, False),
        (TLS, True, True),
        ({"status_page": "off"}, False, True),
        ({"token_file": "tokens"}, True, False),
        ({"grpc_use_ssl_mutual": True}, True, False),
        ({"grpc_restricted_protocol": "inference:key=value"}, True, False),
        ({"grpc_address": "unix:/run/signet.sock"}, True, False),
        ({"grpc_address": ("unix:/run/signet.sock", "127.0.0.1")}, True, True),
    ],
)
def test_page_is_for_this_host_unless_asked_for_and_the_form_opens_no_way_around_a_guard(options, page, form):
    settings = Settings(**options)

    assert (is_offered(settings), may_try(settings)) == (page, form)
