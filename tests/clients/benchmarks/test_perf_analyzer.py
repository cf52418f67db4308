import pytest

from clients.benchmarks.perf_analyzer import ClientFigures, PerfAnalyzerError, for_requests, for_seconds, parse

# Recorded from perf_analyzer of tritonclient 2.50 with `-f`: one concurrency, then a range of two.
HEADING = (
    "Concurrency,Inferences/Second,Client Send,Network+Server Send/Recv,Server Queue,Server Compute Input,"
    "Server Compute Infer,Server Compute Output,Client Recv,p50 latency,p90 latency,p95 latency,p99 latency\n"
)
ONE = HEADING + "16,2223.61,2,5666,812,11,681,7,0,7081,9942,10883,13140\n"
TWO = ONE + "32,2412.02,2,11012,1670,14,901,9,0,12904,17011,18930,23411\n"


def test_the_recorded_figures_are_read():
    assert parse(ONE) == ClientFigures(rows_per_s=2223.61, p50_us=7081, p99_us=13140)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "0 lines of figures"),
        (HEADING, "0 lines of figures"),
        (TWO, "2 lines of figures"),
        (ONE.replace("p99 latency", "p98 latency"), "p99 latency"),
        (ONE.replace("2223.61", "many"), "many"),
        (ONE.replace(",13140", ""), "NoneType"),
    ],
)
def test_a_file_without_the_figures_is_an_error_that_shows_it(text, fault):
    with pytest.raises(PerfAnalyzerError, match=fault) as caught:
        parse(text)

    assert text in str(caught.value)


def test_a_time_is_divided_into_three_windows_of_whole_milliseconds():
    assert for_seconds(0.9)[-1] == "300"
    assert for_seconds(0.0001)[-1] == "1"


def test_a_number_of_requests_is_divided_into_three_windows_and_none_is_left_out():
    assert for_requests(12)[-1] == "4"
    assert for_requests(13)[-1] == "5"
