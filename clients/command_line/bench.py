"""``signet bench``: a quick look at how a signature does under load."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from tritonclient.utils import InferenceServerException

from clients.command_line import load_test
from clients.command_line.bench_report import as_text, figures, page
from clients.command_line.connection import DEFAULT_URL, AsJson, Failure, Url, connect, text_of
from clients.command_line.description import Target, describe
from clients.command_line.histogram import bars, histogram
from clients.command_line.infer import Inputs, Signature, arrays_for, to_infer_inputs
from clients.command_line.load_test import LoadResult
from clients.command_line.observation import counters_of_signature
from clients.command_line.tensors import InputError, random_input


def bench(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The model's name.")],
    *,
    signature: Signature = None,
    inputs: Inputs = None,
    rows: Annotated[int, typer.Option(min=1, help="Rows of a request, in inputs that are not given.")] = 1,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Callers at a time.")] = 16,
    duration: Annotated[float, typer.Option(min=0.1, help="Seconds.")] = 5.0,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with charts, too.")] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Measure a signature under load.

    Each caller sends its next request when the one before is answered. Inputs that are not given are made up. A quick
    look: this client takes CPU from a server on the same machine, and perf_analyzer measures more closely.
    """
    with connect(url) as client:
        target = describe(client, model, signature)
        arrays = _complete(target, arrays_for(target, inputs or []), rows)
        before = counters_of_signature(client, model, signature)
        result = _measure(url, target, arrays, concurrency, duration)
        facts = figures(result, counters_of_signature(client, model, signature) - before)
    if html is not None:
        html.write_text(page(f"{model}{f', signature {signature}' if signature else ''}", result, facts))
    if as_json:
        typer.echo(json.dumps(facts | {"error_texts": result.errors}))
    else:
        _print(result, facts)
    if result.errors:
        raise typer.Exit(1)


def _complete(target: Target, given: dict[str, np.ndarray], rows: int) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    try:
        made = {spec.name: random_input(spec, rows, random) for spec in target.inputs if spec.name not in given}
    except InputError as error:
        raise Failure(str(error)) from None
    return given | made


def _measure(
    url: str, target: Target, arrays: dict[str, np.ndarray], concurrency: int, duration_s: float
) -> LoadResult:
    rows = max((len(array) for array in arrays.values() if array.ndim), default=1)
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{concurrency} callers", total=duration_s)
        run = load_test.run(
            url,
            target,
            to_infer_inputs(target, arrays),
            rows=rows,
            concurrency=concurrency,
            duration_s=duration_s,
            tick=lambda passed_s: progress.update(task, completed=passed_s),
        )
        try:
            result = asyncio.run(run)
        except InferenceServerException as error:
            raise Failure(f"the first request failed: {text_of(error)}; {target}") from None
    if not len(result.latencies_ms):
        raise Failure(f"no request was answered: {result.errors.most_common(1)[0][0]}")
    return result


def _print(result: LoadResult, facts: dict[str, object]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in facts.items():
        table.add_row(name, as_text(value))
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    console.print(table)
    console.print(f"\n{bars(histogram(result.latencies_ms))}", markup=False)
    for text, count in result.errors.most_common():
        console.print(f"{count:,} times: {text}", markup=False)
