"""Requests that take long are told, with where the time went, and never so many that the log is the problem."""

import logging

import pytest

from service import slow_log
from tests.service.serving import Busy, kit, message, serving


@pytest.fixture
def told(caplog):
    caplog.set_level(logging.WARNING, "service.slow_log")

    def records():
        return [record for record in caplog.records if record.name == "service.slow_log"]

    return records


def test_slow_request_is_told_with_its_spans(told):
    with Busy(slow_request_ms=1) as busy:
        busy.gate.opened.wait(0.005)  # is not opened before this block ends
    (record,) = told()

    text = "slow request: model 'clip' version 1, signature 'store', rows 1 of 1: total_ms "
    assert record.getMessage().startswith(text)
    fields = record.fields
    assert (fields["model"], fields["version"], fields["signature"]) == ("clip", 1, "store")
    assert fields["total_ms"] > 1
    assert fields["compute_infer_ms"] > 1
    assert fields["failed"] is False


def test_quick_request_is_not_told(told):
    with serving(kit(), slow_request_ms=60_000) as served:
        served.send(message())

    assert told() == []


def test_nothing_is_told_unless_it_is_asked_for(told):
    with Busy() as busy:
        busy.served.submit(message())

    assert told() == []


def test_many_slow_requests_are_told_in_few_lines_that_count_the_others(told, monkeypatch):
    monkeypatch.setattr(slow_log, "_PAUSE_NS", 10**18)
    with Busy(slow_request_ms=1) as busy:
        for _ in range(20):
            busy.served.submit(message())
        busy.gate.opened.wait(0.005)
        busy.gate.opened.set()
        for answer in busy.served.answers:
            answer.wait()
        assert len(told()) == 1
        busy.served.data_plane._slow_log._next_ns = 0
        busy.gate.opened.clear()
        last, _ = busy.served.submit(message(signature="store"))
        busy.gate.wait_until_entered()
        busy.gate.opened.wait(0.005)
        busy.gate.opened.set()
        last.wait()
        assert told()[1].getMessage().endswith("; 20 more since the line before")
        assert told()[1].fields["untold"] == 20
