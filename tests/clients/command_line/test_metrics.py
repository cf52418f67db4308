"""Percentiles from Prometheus's buckets, and where the metrics are looked for."""

import pytest

from clients.command_line.metrics import Spread, default_url, read_metrics

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("counts", "percent", "expected_ms"),
    [
        ({1.0: 100, INFINITE: 100}, 50, 500),
        ({1.0: 50, 2.0: 100, INFINITE: 100}, 50, 1000),
        ({1.0: 0, 2.0: 100, INFINITE: 100}, 75, 1750),
        ({1.0: 50, 2.0: 50, INFINITE: 100}, 99, 2000),
        ({1.0: 0, INFINITE: 0}, 50, None),
        ({}, 50, None),
    ],
)
def test_percentile_lies_in_its_bucket(counts, percent, expected_ms):
    assert Spread(counts).percentile_ms(percent) == expected_ms


def test_difference_is_what_came_since():
    since = Spread({1.0: 10, INFINITE: 12}) - Spread({1.0: 10, INFINITE: 10})

    assert since.counts == {1.0: 0, INFINITE: 2}


def test_difference_after_a_reload_is_all_there_is():
    fresh = Spread({1.0: 1, INFINITE: 1})

    assert fresh - Spread({1.0: 10, INFINITE: 12}) == fresh


def test_metrics_lie_on_the_host_of_the_server():
    assert default_url("10.0.0.7:9001") == "http://10.0.0.7:8002/metrics"
    assert default_url("[::1]:9001") == "http://[::1]:8002/metrics"
    assert default_url("unix:/run/signet.sock") is None


def test_nothing_that_answers_is_no_metrics():
    assert read_metrics("http://127.0.0.1:1/metrics") == {}
