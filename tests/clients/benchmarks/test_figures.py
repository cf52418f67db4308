import pytest

from clients.benchmarks.figures import Measurement, Spread, medians, p50_differences, ratios


def measurement(requests_per_s, cpu_ms=1.0):
    return Measurement(requests_per_s, p50_ms=2.0, p99_ms=4.0, cpu_ms=cpu_ms, rows_per_run=1.0)


def test_ratios_are_taken_pair_by_pair():
    """The medians alone would say 1.0, since each was disturbed in another round."""
    ours = [measurement(200), measurement(20), measurement(100)]
    theirs = [measurement(100), measurement(10), measurement(200)]

    assert ratios(ours, theirs)["requests/s"] == Spread(2.0, 0.5, 2.0)


def test_every_figure_has_its_own_ratio():
    found = ratios([measurement(10, cpu_ms=1.0)], [measurement(5, cpu_ms=4.0)])

    assert {heading: spread.median for heading, spread in found.items()} == {
        "requests/s": 2.0,
        "p50": 1.0,
        "p99": 1.0,
        "CPU per request": 0.25,
    }


def test_ratios_of_different_numbers_of_rounds_are_refused():
    with pytest.raises(ValueError, match="longer"):
        ratios([measurement(1)], [measurement(1), measurement(2)])


def test_medians_are_taken_figure_by_figure():
    assert medians([measurement(1, 9.0), measurement(2, 7.0), measurement(9, 8.0)]) == measurement(2, 8.0)


def test_a_spread_is_written_as_median_and_range():
    assert str(Spread.of([3.0, 1.0, 2.004])) == "2.00 (1.00..3.00)"


def test_latencies_are_subtracted_pair_by_pair():
    ours = [Measurement(1, 2.0, 3.0, 1.0, 1.0), Measurement(1, 9.0, 9.0, 1.0, 1.0)]
    theirs = [Measurement(1, 1.5, 3.0, 1.0, 1.0), Measurement(1, 9.5, 9.0, 1.0, 1.0)]

    assert p50_differences(ours, theirs) == Spread(0.0, -0.5, 0.5)
