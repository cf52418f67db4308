"""The page that a scenario ends up on, in Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple
from itertools import combinations, pairwise

from clients.benchmarks.alternation import Series, lines
from clients.benchmarks.conditions import Conditions
from clients.benchmarks.figures import RATIOS, medians, p50_differences, ratios

_ROW = tuple[str, ...]
_COMPUTING = ("device", "XLA", "mixed precision")


def to_markdown(title: str, series: Sequence[Series], conditions: Conditions, chart: str) -> str:
    """Return the page.

    Args:
        title: what was asked.
        series: all measurements of the scenario.
        conditions: under which they were taken.
        chart: the file name of the chart that belongs here.
    """
    parts = [
        f"# {title}",
        *_describe(conditions),
        f"![Throughput and latency against concurrency]({chart})",
        "Medians over the rounds:",
        table(
            (
                "callers",
                "load",
                "server",
                *_COMPUTING,
                "requests/s",
                "p50 ms",
                "p99 ms",
                "CPU ms per request",
                "rows per run",
            ),
            map(_figures, series),
        ),
        "Ratios of what was measured side by side, median over the rounds (least..greatest):",
        table(("callers", "what", *RATIOS, "p50 difference, ms"), _comparisons(series)),
    ]
    if growth := list(_growth(series)):
        parts += [
            "More callers beside fewer, likewise:",
            table(("callers", "server", "load", *RATIOS), growth),
        ]
    return "\n\n".join(parts) + "\n"


def _describe(conditions: Conditions) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in conditions.versions.items())
    yield (
        f"{conditions.machine}; load generator and servers share it. {versions}. {conditions.rounds} rounds of"
        f" {conditions.seconds:g} s, at most {conditions.max_batch_size} rows in a run. Before the start"
        f" {conditions.busy:.1f} processes ran or waited for a core."
    )
    options = [f"{label}: `{options}`" for label, options in conditions.variants.items() if options]
    if options:
        yield f"Options: {', '.join(options)}."


def _figures(one: Series) -> _ROW:
    median = medians(one.measurements)
    return (
        str(one.concurrency),
        one.load or "-",
        one.contender,
        *astuple(one.computing),
        f"{median.requests_per_s:,.4g}" if median.requests_per_s < 1000 else f"{median.requests_per_s:,.0f}",
        f"{median.p50_ms:.2f}",
        f"{median.p99_ms:.2f}",
        f"{median.cpu_ms:.3f}",
        f"{median.rows_per_run:.1f}",
    )


def _comparisons(series: Sequence[Series]) -> Iterator[_ROW]:
    """Compare contenders under one load, then loads on one contender, the first with each that follows."""
    for ours, theirs in combinations(series, 2):
        if ours.concurrency != theirs.concurrency:
            continue
        if ours.load == theirs.load:
            what = f"{ours.contender} / {theirs.contender}" + (f", {ours.load}" if ours.load else "")
            yield _comparison(what, ours, theirs)
        elif ours.contender == theirs.contender:
            yield _comparison(f"{theirs.load} / {ours.load}, {ours.contender}", theirs, ours)


def _comparison(what: str, ours: Series, theirs: Series) -> _ROW:
    spreads = ratios(ours.measurements, theirs.measurements)
    difference = p50_differences(ours.measurements, theirs.measurements)
    return (str(ours.concurrency), what, *map(str, spreads.values()), str(difference))


def _growth(series: Sequence[Series]) -> Iterator[_ROW]:
    """Compare each number of callers with the next smaller one, for each contender and load."""
    for line in lines(series):
        for fewer, more in pairwise(line):
            spreads = ratios(more.measurements, fewer.measurements)
            callers = f"{more.concurrency} / {fewer.concurrency}"
            yield (callers, more.contender, more.load or "-", *map(str, spreads.values()))


def table(headings: Sequence[str], rows: Iterable[_ROW]) -> str:
    """Return a table in Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
