"""What becomes of requests that wait: they expire, are cancelled, or are finished when the version closes."""

import threading
import time

import pytest

from service.codec import MessageRequest
from service.errors import (
    CancelledError,
    DeadlineExceededError,
    NotFoundError,
    UnavailableError,
)
from service.request import InferResponse
from tests.service.serving import WAIT_S, Answer, Busy, Gate, counters, kit, message, outputs, rows, serving

NEVER_US = 10**15

# Waiting too long, and leaving. ----------------------------------------------------------------------------------


def test_timeout_parameter_takes_the_request_out_while_the_worker_is_busy():
    with Busy() as busy:
        answer, _ = busy.served.submit(message(timeout=1000))
        told = answer.wait()
        assert not busy.first.came
        counted = counters(busy.served.statistics("clip:serving_default"))

    assert type(told) is UnavailableError
    assert str(told).startswith("Request timeout expired")
    assert counted == {"success": 0, "fail": 1, "rows": 0, "runs": 0, "sizes": {}}


def test_deadline_takes_the_request_out_while_the_worker_is_busy():
    with Busy() as busy:
        answer, _ = busy.served.submit(message(), deadline=time.monotonic() + 0.001)
        told = answer.wait()
        assert not busy.first.came
        counted = counters(busy.served.statistics("clip:serving_default"))

    assert type(told) is DeadlineExceededError
    assert counted == {"success": 0, "fail": 1, "rows": 0, "runs": 0, "sizes": {}}


@pytest.mark.parametrize(
    ("timeout_us", "deadline_s", "kind"),
    [(1000, 60, UnavailableError), (60_000_000, 0.001, DeadlineExceededError), (0, 0.001, DeadlineExceededError)],
)
def test_the_earlier_of_timeout_and_deadline_decides(timeout_us, deadline_s, kind):
    with Busy() as busy:
        answer, _ = busy.served.submit(message(timeout=timeout_us), deadline=time.monotonic() + deadline_s)

        assert type(answer.wait()) is kind


@pytest.mark.parametrize("timeout_us", [0, -1, -(2**63), 2**63 - 1])
def test_no_timeout_and_one_beyond_all_measure_let_a_request_wait(timeout_us):
    with Busy() as busy:
        answer, _ = busy.served.submit(message(timeout=timeout_us))
        busy.gate.opened.set()

        assert outputs(answer.wait()) == {"y": [[2, 2]]}


def test_request_that_came_after_its_deadline_is_not_run():
    with serving(servable := kit()) as served:
        answer, _ = served.submit(message(), deadline=time.monotonic() - 1)
        told = answer.wait()

    assert type(told) is DeadlineExceededError
    assert servable.runs == []


def test_configured_policy_says_whether_the_timeout_parameter_counts(tmp_path):
    path = tmp_path / "config.pbtxt"
    policy = "dynamic_batching { default_queue_policy { default_timeout_microseconds: 1000 } }"
    path.write_text(f'signatures {{ key: "serving_default" value {{ max_batch_size: 8 {policy} }} }}')
    with Busy(config_path=path) as busy:
        told = busy.served.submit(message(timeout=NEVER_US))[0].wait()

    assert str(told).startswith("Request timeout expired")


def test_full_queue_refuses_at_once_and_counts_nothing(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("max_batch_size: 8 dynamic_batching { default_queue_policy { max_queue_size: 2 } }")
    with Busy(config_path=path) as busy:
        waiting = [busy.served.submit(message())[0] for _ in range(2)]
        refused, _ = busy.served.submit(message())
        came_at_once = refused.came
        counted = counters(busy.served.statistics("clip:serving_default"))
        busy.gate.opened.set()
        answers = [answer.wait() for answer in waiting]

    assert came_at_once
    assert type(refused.wait()) is UnavailableError
    assert str(refused.wait()).startswith("[request id: <id_unknown>] Exceeds maximum queue size")
    assert counted["fail"] == 0
    assert [type(answer) for answer in answers] == [InferResponse] * 2


def test_urgent_request_overtakes(tmp_path):
    path = tmp_path / "config.pbtxt"
    path.write_text("max_batch_size: 1 dynamic_batching { priority_levels: 2 default_priority_level: 2 }")
    order = []

    def note(inputs):
        order.append(int(inputs["x"][0, 0]))
        return {"y": inputs["x"]}

    with serving(kit(serving_default=(gate := Gate(note))), config_path=path) as served:
        served.submit(message({"x": rows(0)}))
        gate.wait_until_entered()
        for number, priority in ((1, 2), (2, 0), (3, 1), (4, 99)):
            served.submit(message({"x": rows(number)}, priority=priority))
        gate.opened.set()

    assert order == [0, 3, 1, 2, 4]


def test_cancelled_request_that_waits_is_answered_at_once_and_never_run():
    with Busy() as busy:
        answer, ticket = busy.served.submit(message(signature="embed"))
        ticket.cancel()
        came_at_once = answer.came
        ticket.cancel()
        counted = counters(busy.served.statistics("clip:embed"))

    assert came_at_once
    assert type(answer.wait()) is CancelledError
    assert busy.servable.runs == [("store", 1, ("y",))]
    assert counted == {"success": 0, "fail": 1, "rows": 0, "runs": 0, "sizes": {}}


def test_cancelled_request_that_runs_finishes_and_counts_as_a_success():
    with Busy() as busy:
        busy.first_ticket.cancel()
        assert not busy.first.came
        busy.gate.opened.set()
        told = busy.first.wait()
        busy.first_ticket.cancel()
        counted = counters(busy.served.statistics("clip:store"))

    assert isinstance(told, InferResponse)
    assert (counted["success"], counted["fail"]) == (1, 0)


def test_callback_that_raises_harms_nobody():
    def done(result):
        raise RuntimeError("the caller's own fault")

    with serving(kit()) as served:
        served.data_plane.submit(MessageRequest(message()), None, done)
        after = served.send(message())

    assert isinstance(after, InferResponse)


# Closing. --------------------------------------------------------------------------------------------------------


def test_what_was_taken_is_answered_when_the_repository_closes():
    with Busy() as busy:
        waiting = [busy.served.submit(message({"x": rows(number)}))[0] for number in range(20)]
        closer = threading.Thread(target=busy.served.repository.close, args=(WAIT_S,))
        closer.start()
        busy.gate.opened.set()
        closer.join(WAIT_S)
        answers = [answer.calls for answer in waiting]

    assert [outputs(response)["y"] for (response,) in answers] == [[[2 * number] * 2] for number in range(20)]
    assert busy.servable.closed


def test_what_waits_longer_than_the_timeout_of_a_close_is_unavailable():
    with Busy() as busy:
        answer, _ = busy.served.submit(message())
        closer = threading.Thread(target=busy.served.repository.close, args=(0,))
        closer.start()
        told = answer.wait()
        busy.gate.opened.set()
        closer.join(WAIT_S)

    assert type(told) is UnavailableError
    assert "server stopped before the request was run" in str(told)
    assert isinstance(busy.first.wait(), InferResponse)


def test_request_that_found_a_version_just_before_it_closed_is_unavailable():
    class Late(MessageRequest):
        """The version closes after it was found and before the request is queued."""

        def inputs(self):
            served.repository.close(WAIT_S)
            return super().inputs()

    with serving(servable := kit()) as served:
        answer = Answer()
        served.answers.append(answer)
        served.data_plane.submit(Late(message()), None, answer)

    assert type(answer.wait()) is UnavailableError
    assert "version is being unloaded" in str(answer.wait())
    assert servable.runs == []


def test_no_request_is_lost_or_answered_twice_while_versions_close_under_load():
    """Every answer is an output or says that the version is not there; the block checks that each came once."""
    barrier = threading.Barrier(5)

    def send(served):
        barrier.wait(WAIT_S)
        for _ in range(200):
            _, ticket = served.submit(message(), deadline=time.monotonic() + WAIT_S)
            if len(served.answers) % 7 == 0:
                ticket.cancel()

    with serving(kit()) as served:
        threads = [threading.Thread(target=send, args=(served,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        barrier.wait(WAIT_S)
        served.send(message())
        served.repository.close(WAIT_S)
        for thread in threads:
            thread.join(WAIT_S)

    kinds = {type(answer.wait()) for answer in served.answers}
    assert len(served.answers) == 801
    assert kinds <= {InferResponse, UnavailableError, NotFoundError, CancelledError}
