"""``signet status``: what a server serves, and what it does."""

import json
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated, Final

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from tritonclient.grpc import InferenceServerClient

from clients.command_line.activity import Activity, activities
from clients.command_line.connection import DEFAULT_URL, AsJson, Url, connect
from clients.command_line.metrics import default_url
from clients.command_line.observation import Observation, observe

_HEADINGS: Final = (
    "waiting",
    "requests",
    "failed",
    "per\nsecond",
    "rows\n/run",
    "queue\nms",
    "mean\nms",
    "p50\nms",
    "p99\nms",
)
_WIDTH_OF_LOGS: Final = 160

Look = tuple[Observation | None, Observation]
"""What was seen before, and now."""


def status(
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once; else again and again until Ctrl-C.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds from look to look.")] = 2.0,
    url: Url = DEFAULT_URL,
    metrics_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server's metrics; else port 8002 of the same host.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show models, signatures and what they do.

    Times and rows per run are of the requests since the look before; at the first look, since the load. Who waits and
    p50 and p99 come from the metrics over HTTP. With --json every look is a line.
    """
    with connect(url) as client:
        looks = _looks(client, metrics_url or default_url(url), once=once, every_s=every)
        try:
            _show(looks, live=not once, as_json=as_json)
        except KeyboardInterrupt:
            return  # that is how one ends it


def _looks(client: InferenceServerClient, metrics_url: str | None, *, once: bool, every_s: float) -> Iterator[Look]:
    before = None
    while True:
        now = observe(client, metrics_url)
        yield before, now
        if once:
            return
        before = now
        time.sleep(every_s)


def _show(looks: Iterator[Look], *, live: bool, as_json: bool) -> None:
    if as_json:
        for look in looks:
            typer.echo(json.dumps(_to_object(*look)))
        return
    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_LOGS)
    if not live:
        console.print(*(_to_view(*look) for look in looks))
        return
    with Live(console=console, auto_refresh=False) as view:
        for look in looks:
            view.update(_to_view(*look), refresh=True)


def _to_object(before: Observation | None, now: Observation) -> dict[str, object]:
    return {
        "versions": [vars(version) for version in now.versions],
        "signatures": [vars(activity) for activity in activities(before, now)],
    }


def _to_view(before: Observation | None, now: Observation) -> Group:
    others = [version for version in now.versions if version.state != "READY"]
    lines = [Text(f"{each.model} {each.version} {each.state or 'not loaded'} {each.reason}") for each in others]
    return Group(_to_table(activities(before, now)), *lines)


def _to_table(seen: Iterable[Activity]) -> Table:
    """Return what fits a terminal of 80 columns: each model once, above its signatures; no digit is cut off."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("model, version\n signature", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", overflow="fold", vertical="bottom")
    for (model, version), its in groupby(seen, lambda each: (each.model, each.version)):
        table.add_row(Text(f"{model}, {version}", style="bold"))
        for each in its:
            table.add_row(Text(f" {each.signature}"), *_figures(each))
    return table


def _figures(activity: Activity) -> Iterator[str]:
    counts = (activity.waiting, activity.requests, activity.failed)
    means = (activity.requests_per_s, activity.rows_per_run, activity.mean_queue_ms, activity.mean_ms)
    yield from ("-" if count is None else f"{count:,}" for count in counts)
    yield from map(_short, (*means, activity.p50_ms, activity.p99_ms))


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.2f}"
