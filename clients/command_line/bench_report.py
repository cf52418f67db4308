"""What ``signet bench`` found, for people, for programs and as a page of its own."""

from collections.abc import Mapping
from html import escape
from typing import Any, Final

from clients.command_line.charts import bar_chart, line_chart
from clients.command_line.histogram import histogram
from clients.command_line.load_test import LoadResult
from clients.command_line.observation import Counters

_PERCENTS: Final = (50, 90, 99)

_STYLE: Final = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td { padding: .1rem 1rem .1rem 0; } td + td { font-variant-numeric: tabular-nums; }
figure { margin: 2rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; } svg text { font-size: 12px; fill: currentColor; }
svg rect { fill: #2f7ed8; } svg polyline { fill: none; stroke: #2f7ed8; stroke-width: 2; }
svg path { fill: none; stroke: currentColor; opacity: .4; }
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
    rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(as_text(value))}</td></tr>" for name, value in facts.items()
    )
    errors = "".join(f"<li>{count:,} times: {escape(text)}</li>" for text, count in result.errors.most_common())
    bins = histogram(result.latencies_ms)
    charts = [
        bar_chart(
            "Latency",
            [f"{each.low_ms:.2f} to {each.high_ms:.2f} ms" for each in bins],
            [each.count for each in bins],
            "answers",
        ),
        line_chart(
            "Latency by percentile",
            [f"{percent} %" for percent in range(101)],
            [result.percentile_ms(percent) for percent in range(101)],
            "ms",
        ),
    ]
    if len(by_second := result.by_second().tolist()) > 1:
        seconds = [f"second {number + 1}" for number in range(len(by_second))]
        charts.append(line_chart("Answers in each second", seconds, by_second, "answers"))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><h1>{escape(title)}</h1>"
        f"<table>{rows}</table><ul>{errors}</ul>{''.join(charts)}</html>\n"
    )
