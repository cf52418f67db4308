"""The page stands for itself and shows the figures; the histogram loses no answer."""

import itertools
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest

from clients.command_line.bench_report import figures, page
from clients.command_line.charts import bar_chart
from clients.command_line.histogram import bars, histogram
from clients.command_line.load_test import LoadResult
from clients.command_line.observation import Counters

SERVER = Counters(requests=4, rows=8, runs=2, queue_ns=4_000_000, total_ns=8_000_000)


def result(latencies, errors=None):
    latencies = np.array(latencies, np.float64)
    finished = np.linspace(0.1, 2.9, len(latencies))
    return LoadResult(4, 2, 3.0, finished, latencies, Counter(errors or {}))


def test_figures_are_those_of_the_answers():
    facts = figures(result([1, 2, 3, 10], {"x": 1}), SERVER)

    assert facts["answers"] == 4
    assert facts["errors"] == 1
    assert facts["requests_per_s"] == pytest.approx(4 / 3)
    assert facts["rows_per_s"] == pytest.approx(8 / 3)
    assert (facts["mean_ms"], facts["p50_ms"], facts["max_ms"]) == (4, 2.5, 10)
    assert (facts["server_mean_ms"], facts["server_mean_queue_ms"], facts["server_rows_per_run"]) == (2, 1, 4)


def test_page_loads_nothing_and_escapes_what_servers_say():
    found = result(range(1, 200), {"<script>": 3})
    text = page("a & <b>", found, figures(found, SERVER))
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(text)

    assert [tag for tag, _ in tags].count("svg") == 3
    assert "script" not in [tag for tag, _ in tags]
    assert not [attributes for _, attributes in tags if {"src", "href"} & set(attributes)]
    assert "url(" not in text
    assert "a &amp; &lt;b&gt;" in text


def test_page_of_one_answer_has_charts():
    one = result([5])

    assert page("one", one, figures(one, SERVER)).count("<svg") == 3


@pytest.mark.parametrize("latencies", [[3.0], [2.0] * 10, list(np.random.default_rng(0).lognormal(size=1000))])
def test_every_answer_lies_in_a_bin(latencies):
    bins = histogram(np.array(latencies))

    assert sum(each.count for each in bins) == len(latencies)
    assert all(a.high_ms == b.low_ms for a, b in itertools.pairwise(bins))
    assert len(re.findall(r" ms ", bars(bins))) == len(bins)


@pytest.mark.parametrize("highest", [0, 0.0123, 0.5, 1, 7, 10, 99.9, 12345])
def test_lines_of_a_chart_reach_the_highest_value(highest):
    text = bar_chart("x", ["a"], ["a"], [highest])
    lines = [float(number.replace(",", "")) for number in re.findall(r'end">([\d.,e+-]+)<', text)]
    (height,) = (float(number) for number in re.findall(r'height="([\d.]+)"', text))
    top, *_, base = sorted(float(number) for number in re.findall(r'd="M64 ([\d.]+)H', text))

    assert lines[0] == 0
    assert highest <= lines[-1]
    assert 2 <= len(lines) <= 6
    assert height == pytest.approx((base - top) * highest / lines[-1], abs=0.2)
