"""The counters equal what the client did."""

from collections import Counter

import numpy as np
import pytest

from tests.end_to_end.calls import call, rows

pytestmark = pytest.mark.end_to_end


def counters(client, name):
    return client.get_inference_statistics(name).model_stats[0]


def runs_by_size(entry):
    return {batch.batch_size: batch.compute_infer.count for batch in entry.batch_stats}


def test_counts_are_exact_for_known_requests(client):
    before = counters(client, "kit:turn")
    for count in (1, 1, 1, 4):
        call(client, "kit", {"t": np.zeros((count, 3, 5), np.float32)}, "turn")
    after = counters(client, "kit:turn")

    assert after.inference_count - before.inference_count == 7
    assert after.execution_count - before.execution_count == 4
    for member in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert getattr(after.inference_stats, member).count - getattr(before.inference_stats, member).count == 4
    assert Counter(runs_by_size(after)) - Counter(runs_by_size(before)) == {1: 3, 4: 1}
    assert after.last_inference > 1_600_000_000_000


def test_parts_of_the_time_do_not_exceed_the_whole(client):
    call(client, "kit", {"x": rows(3)})
    stats = counters(client, "kit").inference_stats
    parts = sum(getattr(stats, member).ns for member in ("queue", "compute_input", "compute_infer", "compute_output"))

    assert 0 < parts <= stats.success.ns


def test_all_members_are_present_at_zero(client):
    stats = counters(client, "several").inference_stats

    for member in stats.DESCRIPTOR.fields_by_name:
        assert stats.HasField(member), member


def test_failure_in_the_model_counts_as_failure_and_as_execution(client):
    before = counters(client, "kit:picky")
    poison = rows(1)
    poison[0, 2] = -1
    with pytest.raises(Exception, match="picky"):
        call(client, "kit", {"x": poison}, "picky")
    after = counters(client, "kit:picky")

    assert after.inference_stats.fail.count - before.inference_stats.fail.count == 1
    assert after.execution_count - before.execution_count == 1
    assert after.inference_count == before.inference_count


def test_all_models_are_listed_and_an_alias_once_a_request_used_it(client):
    names = [(entry.name, entry.version) for entry in client.get_inference_statistics().model_stats]
    assert ("kit", "1") in names
    assert ("counter", "1") in names
    call(client, "kit:wide", {"x": rows(1, columns=6)})

    with pytest.raises(Exception, match="embde"):
        call(client, "kit:embde", {"x": rows(1)})
    names = [(entry.name, entry.version) for entry in client.get_inference_statistics().model_stats]

    assert ("kit:wide", "1") in names
    assert ("kit:embde", "1") not in names
