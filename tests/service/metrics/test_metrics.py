"""What Prometheus reads equals what callers saw."""

import math
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from service.errors import InternalError
from service.metrics.collectors import make_registry
from service.metrics.exposition import render
from tests.service.serving import Busy, kit, message, rows, serving

WAIT_S = 30
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;q=0.5"
REASONS = {"REJECTED", "CANCELED", "BACKEND", "OTHER"}


def scrape(served, accept=""):
    text, _ = render(make_registry(served.repository, "1.2.3", served.data_plane.admission), accept)
    return (parse_openmetrics if "openmetrics" in accept else parse_plain)(text.decode())


def samples(served, accept=""):
    """Return every sample by its name and the values of its labels but the model's and the version's."""
    found = {}
    for family in scrape(served, accept):
        for sample in family.samples:
            rest = tuple(value for name, value in sorted(sample.labels.items()) if name not in ("model", "version"))
            # The parser of the plain format gives every counter its suffix; the text has none for Triton's.
            name = sample.name.removesuffix("_total") if sample.name.startswith("nv_") else sample.name
            assert (name, *rest) not in found
            found[name, *rest] = sample.value
    return found


def failures(found):
    return {reason: found["nv_inference_request_failure", reason] for reason in REASONS}


def fail(_inputs):
    raise InternalError("the model says no")


def wait_until(holds):
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
def test_every_series_is_there_with_zero_before_the_first_request(accept):
    with serving(kit()) as served:
        found = samples(served, accept)

    assert failures(found) == dict.fromkeys(REASONS, 0)
    assert found["nv_inference_request_success",] == 0
    assert found["nv_inference_pending_request_count",] == 0
    for signature in ("serving_default", "threshold", "store"):
        assert found["signet_queue_requests", signature] == 0
        assert found["signet_request_latency_seconds_count", signature] == 0
        assert found["signet_dropped_requests_total", "queue_full", signature] == 0
        assert found["signet_batch_rows_bucket", "+Inf", signature] == 0
    assert found["signet_model_state", "READY"] == 1
    assert found["process_resident_memory_bytes",] > 1e6


def test_tritons_counters_are_counters_to_prometheus_and_have_no_suffix():
    with serving(kit()) as served:
        text, _ = render(make_registry(served.repository, "1.2.3", served.data_plane.admission), "")
    lines = text.decode().splitlines()

    for name in ("request_success", "count", "exec_count", "request_duration_us", "compute_infer_duration_us"):
        assert f"# TYPE nv_inference_{name} counter" in lines
        assert f'nv_inference_{name}{{model="clip",version="1"}} 0.0' in lines
    assert "# TYPE nv_inference_request_failure counter" in lines
    assert "# TYPE nv_inference_pending_request_count gauge" in lines
    assert not [line for line in lines if line.startswith("# TYPE") and line.endswith("untyped")]


def test_known_traffic_is_counted_exactly():
    with serving(kit(embed=fail)) as served:
        for numbers in ((1,), (1,), (1, 2), (1, 2, 3, 4)):
            served.send(message({"x": rows(*numbers)}))
        for _ in range(3):
            served.send(message(signature="embed"))
        served.send(message(signature="nope"))
        served.send(message(model="nobody"))
        found = samples(served)

    assert found["nv_inference_request_success",] == 4
    assert found["nv_inference_count",] == 8
    assert found["nv_inference_exec_count",] == 7
    assert failures(found) == {**dict.fromkeys(REASONS, 0), "BACKEND": 3}
    assert found["signet_failed_runs_total", "embed"] == 3
    assert found["signet_request_latency_seconds_count", "serving_default"] == 4
    assert found["signet_request_latency_seconds_count", "embed"] == 0
    assert found["nv_inference_request_duration_us",] == pytest.approx(
        found["signet_request_latency_seconds_sum", "serving_default"] * 1e6, abs=1
    )
    sizes = {bound: found["signet_batch_rows_bucket", bound, "serving_default"] for bound in ("1.0", "2.0", "4.0")}
    assert sizes == {"1.0": 2, "2.0": 3, "4.0": 4}
    assert found["signet_batch_rows_sum", "serving_default"] == 8
    parts = ("queue", "compute_input", "compute_infer", "compute_output")
    assert (
        sum(found[f"nv_inference_{part}_duration_us",] for part in parts) <= found["nv_inference_request_duration_us",]
    )


def test_requests_that_wait_and_run_are_seen_and_gone_when_they_end_in_any_way():
    with Busy() as busy:
        answers = [busy.served.submit(message({"x": rows(1, 2, 3)})) for _ in range(4)]
        found = samples(busy.served)
        assert found["nv_inference_pending_request_count",] == 4
        assert found["signet_queue_requests", "serving_default"] == 4
        assert found["signet_queue_rows", "serving_default"] == 12
        assert found["signet_running_requests", "store"] == 1
        for _, ticket in answers[:2]:
            ticket.cancel()
        busy.served.submit(message(timeout=1))[0].wait()
        late, _ = busy.served.submit(message(), deadline=time.monotonic())
        late.wait()
        assert samples(busy.served)["nv_inference_pending_request_count",] == 2
        busy.gate.opened.set()
        for answer, _ in answers:
            answer.wait()
        served = busy.served
        wait_until(lambda: samples(served)["signet_running_requests", "serving_default"] == 0)
        found = samples(served)

    assert failures(found) == {"REJECTED": 1, "CANCELED": 3, "BACKEND": 0, "OTHER": 0}
    drops = {
        reason: found["signet_dropped_requests_total", reason, "serving_default"]
        for reason in ("cancelled", "timeout", "deadline", "queue_full")
    }
    assert drops == {"cancelled": 2, "timeout": 1, "deadline": 1, "queue_full": 0}
    gauges = ("signet_queue_requests", "signet_queue_rows", "signet_running_requests")
    assert {found[name, "serving_default"] for name in gauges} == {0}
    assert found["nv_inference_pending_request_count",] == 0


def test_refusals_of_a_full_queue_are_counted(tmp_path):
    (tmp_path / "config.pbtxt").write_text("dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    with Busy(config_path=tmp_path / "config.pbtxt") as busy:
        for _ in range(3):
            busy.served.submit(message())
        found = samples(busy.served)

    assert found["signet_dropped_requests_total", "queue_full", "serving_default"] == 2
    assert found["nv_inference_pending_request_count",] == 1


def test_request_that_failed_with_others_and_is_run_again_alone_is_counted():
    def picky(inputs):
        if (inputs["x"] < 0).any():
            raise InternalError("no")
        return {"y": inputs["x"]}

    with Busy() as busy:
        busy.servable._functions["serving_default"] = picky
        answers = [busy.served.submit(message({"x": rows(number)}))[0] for number in (1, -1, 2)]
        busy.gate.opened.set()
        for answer in answers:
            answer.wait()
        served = busy.served
        wait_until(lambda: samples(served)["signet_retried_runs_total", "serving_default"] == 3)
        found = samples(served)

    assert found["signet_failed_runs_total", "serving_default"] == 2
    assert failures(found) == {**dict.fromkeys(REASONS, 0), "BACKEND": 1}


@pytest.mark.parametrize("accept", ["", OPENMETRICS])
@pytest.mark.parametrize("name", ['a"b', "back\\slash", "new\nline", "größe", "bad\udcff", "{}", "a,b=c"])
def test_odd_names_are_escaped(name, accept):
    with serving({name: {1: kit()}}) as served:
        names = {
            sample.labels["model"]
            for family in scrape(served, accept)
            for sample in family.samples
            if sample.labels.get("model")
        }

    assert names == {name.replace("\udcff", "\\udcff")}


def test_names_that_callers_make_up_leave_no_series():
    with serving(kit()) as served:
        before = samples(served).keys()
        for number in range(50):
            served.send(message(model=f"made-up-{number}"))
            served.send(message(model=f"clip:made-up-{number}"))
            served.send(message(signature=f"made-up-{number}"))

        assert samples(served).keys() == before


def test_series_of_an_unloaded_model_vanish():
    with serving(kit()) as served:
        served.repository.unload("clip")
        found = samples(served)

    assert not [name for name, *_ in found if name.startswith("nv_inference_")]
    assert not [name for name, *_ in found if name.startswith("signet_queue")]


def test_readers_and_requests_at_once_lose_no_count():
    with serving(kit()) as served:
        done = threading.Event()
        seen = [0.0]

        def read():
            while not done.is_set():
                seen.append(samples(served)["nv_inference_request_success",])

        reader = threading.Thread(target=read)
        reader.start()
        for _ in range(300):
            served.send(message())
        done.set()
        reader.join()
        assert seen == sorted(seen)
        assert samples(served)["nv_inference_request_success",] == 300


def test_latency_lands_in_the_bucket_that_holds_it():
    with serving(kit()) as served:
        statistics = served.repository.find("clip", "").loaded.find_signature(None).statistics
        from service.model_statistics import RunDurations

        for total_ms in (0.4, 0.5, 3, 70_000):
            statistics.record_successes(1, [int(total_ms * 1e6)], 0, RunDurations(0, 0, 0))
        buckets = {
            float(key[1]): value
            for key, value in samples(served).items()
            if key[0] == "signet_request_latency_seconds_bucket" and key[-1] == "serving_default"
        }

    assert buckets[0.0005] == 2
    assert buckets[0.002] == 2
    assert buckets[0.005] == 3
    assert buckets[60.0] == 3
    assert buckets[math.inf] == 4
