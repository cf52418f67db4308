"""What ``signet bench`` found, for people, for programs and as a page of its own."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from clients.command_line.charts import bar_chart
from clients.command_line.histogram import histogram
from clients.command_line.load_test import LoadResult
from clients.command_line.observation import Counters

_PERCENTS: Final = (50, 90, 99)
_DRAWN_PERCENTS: Final = (10, 25, 50, 75, 90, 95, 99, 100)
_TOLD_FIRST: Final = {
    "requests_per_s": "requests a second",
    "p50_ms": "p50, ms",
    "p99_ms": "p99, ms",
    "errors": "errors",
}

_STYLE: Final = """
:root { color-scheme: light dark; --soft: #5a6976; --line: #dbe2e8; --bar: #2f7ed8; }
@media (prefers-color-scheme: dark) { :root { --soft: #9fadb8; --line: #313c46; --bar: #6aaef5; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; overflow-wrap: anywhere; } .conditions { color: var(--soft); margin-top: 0; }
.first { display: flex; flex-wrap: wrap; gap: 1.5rem 2.5rem; margin: 1.5rem 0; }
.first strong { display: block; font-size: 1.6rem; line-height: 1.2; font-variant-numeric: tabular-nums; }
.first span { color: var(--soft); font-size: .9rem; }
table { border-collapse: collapse; } td { padding: .1rem 1.5rem .1rem 0; border-top: 1px solid var(--line); }
td + td { text-align: right; padding-right: 0; font-variant-numeric: tabular-nums; }
figure { margin: 2rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; } svg text { font-size: 12px; fill: var(--soft); }
svg rect { fill: var(--bar); } svg path { fill: none; stroke: var(--line); }
"""


def figures(result: LoadResult, server: Counters) -> dict[str, Any]:
    """Return the figures by name; times in ms, also the server's own means.

    Args:
        result: with at least one answer.
        server: what the server counted meanwhile.
    """
    return {
        "concurrency": result.concurrency,
        "rows_per_request": result.rows,
        "seconds": result.seconds,
        "answers": len(result.latencies_ms),
        "errors": sum(result.errors.values()),
        "requests_per_s": result.per_second,
        "rows_per_s": result.per_second * result.rows,
        "mean_ms": float(result.latencies_ms.mean()),
        **{f"p{percent}_ms": result.percentile_ms(percent) for percent in _PERCENTS},
        "max_ms": float(result.latencies_ms.max()),
        "server_mean_ms": server.mean_ms,
        "server_mean_queue_ms": server.mean_queue_ms,
        "server_rows_per_run": server.rows_per_run,
    }


def as_text(value: object) -> str:
    """Return a figure as people read it."""
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def page(title: str, result: LoadResult, facts: Mapping[str, object]) -> str:
    """Return an HTML page with figures and charts that loads nothing from elsewhere."""
    first = "".join(
        f"<div><strong>{escape(as_text(facts[name]))}</strong><span>{escape(words)}</span></div>"
        for name, words in _TOLD_FIRST.items()
    )
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(as_text(value))}</td></tr>" for name, value in facts.items()
    )
    errors = "".join(f"<li>{count:,} times: {escape(text)}</li>" for text, count in result.errors.most_common())
    conditions = f"{result.concurrency} callers for {result.seconds:.1f} s; rows in a request: {result.rows}"
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f'<p class="conditions">{conditions}</p><div class="first">{first}</div>'
        f"{f'<ul>{errors}</ul>' if errors else ''}{''.join(_charts(result))}"
        f"<h2>All figures</h2><table>{rows}</table></html>\n"
    )


def _charts(result: LoadResult) -> Iterator[str]:
    bins = histogram(result.latencies_ms)
    yield bar_chart(
        "Answers by latency, ms",
        [f"{each.low_ms:.2f} to {each.high_ms:.2f} ms" for each in bins],
        [f"{each.low_ms:.3g}" for each in bins],
        [each.count for each in bins],
    )
    names = ["longest" if percent == 100 else f"p{percent}" for percent in _DRAWN_PERCENTS]
    yield bar_chart(
        "Latency by percentile, ms", names, names, [result.percentile_ms(percent) for percent in _DRAWN_PERCENTS]
    )
    if len(by_second := result.by_second().tolist()) > 1:
        seconds = [str(number + 1) for number in range(len(by_second))]
        yield bar_chart("Answers in each second", [f"second {second}" for second in seconds], seconds, by_second)
