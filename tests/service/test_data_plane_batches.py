"""Which requests run together, and how they are counted."""

import time

import numpy as np
import pytest

from service.errors import InternalError
from tests.service.serving import WAIT_S, Busy, Gate, counters, kit, message, outputs, rows, serving

# What runs together. ---------------------------------------------------------------------------------------------


def test_requests_that_wait_are_joined_by_signature_and_inner_shape():
    with Busy() as busy:
        sent = [
            busy.served.submit(request)[0]
            for request in (
                message({"x": rows(1)}),
                message(signature="embed"),
                message({"x": rows(2, 3)}),
                message(model="clip:serving_default"),
                message(signature="embed"),
            )
        ]
        busy.gate.opened.set()
        answers = [answer.wait() for answer in sent]
        runs = busy.servable.runs

    assert runs[1:] == [("serving_default", 4, ("y",)), ("embed", 2, ("z",))]
    assert outputs(answers[2]) == {"y": [[4, 4], [6, 6]]}


def test_request_larger_than_a_batch_is_run_in_parts_and_joined():
    with serving(servable := kit(), default_max_batch_size=4) as served:
        response = served.send(message({"x": rows(*range(10))}))
        counted = counters(served.statistics("clip"))

    assert [row[0] for row in outputs(response)["y"]] == [2 * number for number in range(10)]
    assert [run[1] for run in servable.runs] == [4, 4, 2]
    assert counted == {"success": 1, "fail": 0, "rows": 10, "runs": 3, "sizes": {4: 2, 2: 1}}


def test_no_rows_are_answered_with_no_rows():
    with serving(kit()) as served:
        response = served.send(message({"x": rows()}))
        counted = counters(served.statistics("clip"))

    assert outputs(response) == {"y": []}
    assert (counted["success"], counted["rows"], counted["runs"]) == (1, 0, 1)


def test_writing_signature_runs_each_request_once_and_alone():
    calls = []

    def store(inputs):
        calls.append(inputs["x"][0, 0])
        raise InternalError("disk full")

    gate = Gate(store)
    with serving(kit(store=gate)) as served:
        answers = [served.submit(message({"x": rows(number)}, signature="store"))[0] for number in range(4)]
        gate.opened.set()
        kinds = [type(answer.wait()) for answer in answers]

    assert kinds == [InternalError] * 4
    assert calls == [0, 1, 2, 3]


@pytest.mark.parametrize(("signature", "runs"), [("threshold", 1), ("draw", 3)])
def test_callers_of_a_constant_share_a_run_but_callers_of_random_numbers_do_not(signature, runs):
    with Busy() as busy:
        sent = [busy.served.submit(message({}, signature=signature))[0] for _ in range(3)]
        busy.gate.opened.set()
        answers = [outputs(answer.wait()) for answer in sent]
        counted = counters(busy.served.statistics(f"clip:{signature}"))

    assert answers == [{"t": 0.5}] * 3
    assert counted == {"success": 3, "fail": 0, "rows": 3, "runs": runs, "sizes": {1: runs}}


def test_requests_with_and_without_an_optional_input_do_not_meet():
    seen = []

    def scale(inputs):
        seen.append(sorted(inputs))
        return {"y": inputs["x"] * inputs.get("k", np.float32(3))}

    with serving(kit(scale=scale)) as served:
        without = served.send(message(signature="scale"))
        given = served.send(message({"x": rows(1), "k": np.array(5, np.float32)}, signature="scale"))

    assert outputs(without) == {"y": [[3, 3]]}
    assert outputs(given) == {"y": [[5, 5]]}
    assert seen == [["x"], ["k", "x"]]


# Statistics. -----------------------------------------------------------------------------------------------------


def test_requests_of_one_batch_count_once_as_a_run_and_each_as_a_success():
    with Busy() as busy:
        sent = [busy.served.submit(message({"x": rows(*range(count))}))[0] for count in (1, 1, 2, 4)]
        busy.gate.opened.set()
        for answer in sent:
            answer.wait()
        statistics = busy.served.statistics("clip:serving_default")

    assert counters(statistics) == {"success": 4, "fail": 0, "rows": 8, "runs": 1, "sizes": {8: 1}}
    assert statistics.queue.count == statistics.compute.infer.count == 4
    assert statistics.compute.infer.ns == 4 * statistics.batches[8].infer.ns
    parts = (statistics.queue, statistics.compute.input, statistics.compute.infer, statistics.compute.output)
    assert 0 < sum(part.ns for part in parts) <= statistics.success.ns
    assert abs(statistics.last_inference_ms / 1000 - time.time()) < WAIT_S


def test_unbatched_requests_count_their_rows_and_a_run_each():
    with serving(kit()) as served:
        for count in (1, 1, 1, 4):
            served.send(message({"x": rows(*range(count))}, signature="sum"))
        counted = counters(served.statistics("clip:sum"))

    assert counted["runs"] == counted["success"] == 4
    assert sum(counted["sizes"].values()) == 4


def test_alias_and_parameter_share_the_counters():
    with serving(kit()) as served:
        served.send(message(model="clip:embed"))
        served.send(message(signature="embed"))
        served.send(message())
        alias, whole = counters(served.statistics("clip:embed")), counters(served.statistics("clip"))

    assert (alias["success"], whole["success"]) == (2, 3)


def test_alias_counts_as_used_only_once_it_was_found():
    with serving(kit()) as served:
        loaded = served.repository.find("clip", "").loaded
        for name in ("clip:nope", "clip:broken", "clip", "clip:embed"):
            served.send(message(model=name))

    assert loaded.aliases_used == {"embed"}
