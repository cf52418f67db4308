"""The chart of a scenario: throughput and latency against concurrency."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from clients.benchmarks.alternation import Series, lines
from clients.benchmarks.figures import Spread, medians

_STYLE: Final[Any] = {"svg.fonttype": "none", "svg.hashsalt": "signet", "font.size": 9}
"""Text stays text, and the same figures give the same file."""


def draw(path: Path, title: str, series: Sequence[Series]) -> None:
    """Write the chart as SVG: lines of medians, with bars from the least to the greatest throughput."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 4), layout="constrained")
        figure.suptitle(title)
        throughput, latency = figure.subplots(1, 2)
        for number, line in enumerate(lines(series)):
            _draw_line(throughput, latency, line, f"C{number}")
        _label(throughput, "requests per second")
        _label(latency, "milliseconds (line p50, dashed p99)")
        latency.set_yscale("log")
        throughput.set_ylim(bottom=0)
        throughput.legend()
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_line(throughput: Axes, latency: Axes, line: Sequence[Series], colour: str) -> None:
    callers = [one.concurrency for one in line]
    middle = [medians(one.measurements) for one in line]
    spreads = [Spread.of([measured.requests_per_s for measured in one.measurements]) for one in line]
    below = [spread.median - spread.low for spread in spreads]
    above = [spread.high - spread.median for spread in spreads]
    label = f"{line[0].contender}, {line[0].load}" if line[0].load else line[0].contender
    rates = [median.requests_per_s for median in middle]
    throughput.errorbar(callers, rates, [below, above], color=colour, marker="o", capsize=3, label=label)
    latency.plot(callers, [median.p50_ms for median in middle], color=colour, marker="o")
    latency.plot(callers, [median.p99_ms for median in middle], color=colour, marker="o", linestyle="--")


def _label(axes: Axes, what: str) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("callers that wait at the same time")
    axes.set_ylabel(what)
    axes.grid(alpha=0.3)
