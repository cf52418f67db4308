"""Measure how many workers, which dispatch of ops and how many threads within an op suit a model on this machine.

    python tools/bench_workers.py SAVEDMODEL --signature images --workers 1 2 4 --intra 1 2 --dispatch inline pool

Every setting is measured in turns with all others, so that what disturbs the machine disturbs all of them; every other
round goes backwards. Callers ask again as soon as they are answered, in process, through the real batcher. Printed are
medians over the rounds: rows per second relative to the first setting, the 50th and the 99th percentile of the times
that callers wait, relative likewise, CPU time per row, and the mean batch. Threads within an op belong to a process, so
each number of them has its own, with the SavedModel loaded once.
"""

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import numpy as np

from batching import Task, TaskResult
from batching.burst import Burst
from protos.model_config_pb2 import ModelConfig
from service import saved_model
from service.loading import VersionLoader
from service.model_version import ModelVersion
from service.saved_model.options import RuntimeOptions
from service.settings import Settings
from service.signature import OPEN, TensorSpec
from service.synthetic_inputs import random_values

_WARM_UP_S: Final = 0.3
"""A first measurement that is thrown away: first runs of a batch size cost more."""


@dataclass(frozen=True)
class Setting:
    """One way to run the model; ``dispatch`` is ``inline`` (the worker runs the ops) or ``pool`` (TensorFlow's)."""

    intra: int
    dispatch: str
    workers: int


@dataclass(frozen=True)
class Load:
    """Who asks: so many callers with so many rows each."""

    callers: int
    rows: int


@dataclass(frozen=True)
class Figures:
    """What one measurement gave; times in seconds."""

    rows_per_s: float
    p50_s: float
    p99_s: float
    cpu_per_row_s: float
    rows_per_run: float


class Callers:
    """Callers who ask again as soon as they are answered.

    As in the server one thread, here the calling one, takes what was asked meanwhile, submits it together and runs what
    is quick itself.
    """

    def __init__(self, version: ModelVersion, signature: str, load: Load) -> None:
        self._version = version
        self._served = version.signatures[signature]
        self._load = load
        random = np.random.default_rng(0)
        specs = self._served.signature.inputs
        self._inputs = {spec.name: random_values(spec.datatype, _shape(spec, load.rows), random) for spec in specs}
        shapes = tuple((spec.name, spec.datatype.name, self._inputs[spec.name].shape[1:]) for spec in specs)
        self._key = (version.name, version.version, signature, shapes)
        self._outputs = tuple(spec.name for spec in self._served.signature.outputs)
        self._times_s: list[float] = []
        self._answered: SimpleQueue[BaseException | None] = SimpleQueue()

    def measure(self, seconds: float) -> Figures:
        """Ask for so long.

        Raises:
            BaseException: what a run failed with.
        """
        cpu_s, started = time.process_time(), time.perf_counter()
        before = self._version.statistics().execution_count
        self._ask(self._load.callers, started + seconds)
        elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
        rows = len(self._times_s) * self._load.rows
        p50_s, p99_s = np.percentile(self._times_s, [50, 99])
        runs = self._version.statistics().execution_count - before
        return Figures(rows / elapsed_s, float(p50_s), float(p99_s), cpu_s / rows, rows / runs)

    def _ask(self, callers: int, until: float) -> None:
        burst = Burst()
        asking = free = callers
        while asking:
            for _ in range(free):
                self._submit(burst)
            burst.run()
            free = self._wait()
            if time.perf_counter() >= until:
                asking -= free
                free = 0

    def _wait(self) -> int:
        """Wait for an answer; return how many there are."""
        number = 0
        while not number or not self._answered.empty():
            error = self._answered.get()
            if error is not None:
                raise error
            number += 1
        return number

    def _submit(self, burst: Burst) -> None:
        begun = time.perf_counter()

        def done(_task: Task, result: TaskResult) -> None:
            self._times_s.append(time.perf_counter() - begun)
            self._answered.put(result.error)

        task = Task(self._key, self._load.rows, self._inputs, self._outputs, self._served.options, done)
        burst.submit(self._version.scheduler, task)


def _shape(spec: TensorSpec, rows: int) -> list[int]:
    return [rows, *(1 if size == OPEN else size for size in (spec.shape or ())[1:])]


def _serve_orders(path: Path, signature: str, settings: Sequence[Setting], orders: Connection) -> None:
    """Measure one setting after another in a process of its own; all share one copy of the model."""
    saved_model.configure(RuntimeOptions(intra_op_threads=settings[0].intra))
    _dispatch(settings[0].dispatch)
    loader = VersionLoader(Settings.model_validate({"warm_up_timeout": 0}))
    versions = {}
    for setting in settings:
        config = ModelConfig()
        config.instance_group.add(count=setting.workers)
        versions[setting.workers] = loader.load("bench", setting.workers, path, config)
    while True:
        order: tuple[int, Load, float] | None = orders.recv()
        if order is None:
            break
        workers, load, seconds = order
        orders.send(Callers(versions[workers], signature, load).measure(seconds))
    for version in versions.values():
        version.close(None)


def _dispatch(way: str) -> None:
    """Take the choice that the server makes by the depth of a signature out of its hands."""
    from service.saved_model.call_depth import CallDepth  # noqa: PLC0415 - TensorFlow starts after its settings

    reason = None if way == "inline" else "asked for"
    CallDepth.why_pool = lambda *_: reason  # type: ignore[method-assign]


class Bench:
    """The processes, one for each number of threads and each dispatch."""

    def __init__(self, path: Path, signature: str, settings: Iterable[Setting]) -> None:
        context = get_context("spawn")
        self._orders = {}
        self._processes = []
        for of_process, members in itertools.groupby(settings, key=lambda setting: (setting.intra, setting.dispatch)):
            ours, theirs = context.Pipe()
            arguments = (path, signature, list(members), theirs)
            process = context.Process(target=_serve_orders, args=arguments)
            process.start()
            self._orders[of_process] = ours
            self._processes.append(process)

    def measure(self, setting: Setting, load: Load, seconds: float) -> Figures:
        """Measure one setting; the other processes wait."""
        orders = self._orders[setting.intra, setting.dispatch]
        orders.send((setting.workers, load, seconds))
        figures: Figures = orders.recv()
        return figures

    def close(self) -> None:
        """End the processes."""
        for orders in self._orders.values():
            orders.send(None)
        for process in self._processes:
            process.join()


def _report(load: Load, taken: dict[Setting, list[Figures]]) -> str:
    """Return a table in Markdown. What is relative is so pair by pair, to the first setting in the same round."""
    first = next(iter(taken.values()))
    lines = [
        f"{load.callers} callers, {load.rows} rows each",
        "",
        "| workers | ops run | threads in an op | rows/s | p50 | p99 | CPU per row | CPU per row, us | rows in a run |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for setting, figures in taken.items():
        relative = [
            [getattr(mine, name) / getattr(other, name) for mine, other in zip(figures, first, strict=True)]
            for name in ("rows_per_s", "p50_s", "p99_s", "cpu_per_row_s")
        ]
        cells = [f"{statistics.median(each):.2f} ({min(each):.2f}..{max(each):.2f})" for each in relative]
        cpu_us = statistics.median(each.cpu_per_row_s for each in figures) * 1e6
        rows = statistics.median(each.rows_per_run for each in figures)
        way = "inline" if setting.dispatch == "inline" else "on the pool"
        head = f"| {setting.workers} | {way} | {setting.intra} | "
        lines.append(head + " | ".join([*cells, f"{cpu_us:,.0f}", f"{rows:.1f}"]) + " |")
    rate = statistics.median(each.rows_per_s for each in first)
    return "\n".join([*lines, "", f"The first: {rate:,.1f} rows/s.", ""])


def main() -> None:
    """Measure as the command line says and print a table for each load."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a SavedModel, such as clients.benchmarks.export makes")
    parser.add_argument("--signature", default="serving_default")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--intra", type=int, nargs="+", default=[1, 2], help="threads within an op")
    parser.add_argument("--dispatch", nargs="+", choices=["inline", "pool"], default=["inline", "pool"])
    parser.add_argument("--callers", type=int, nargs="+", default=[1, 4, 32])
    parser.add_argument("--rows", type=int, default=1, help="of each request")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one measurement")
    args = parser.parse_args()
    settings = [Setting(*each) for each in itertools.product(args.intra, args.dispatch, args.workers)]
    bench = Bench(args.model, args.signature, settings)
    for load in (Load(callers, args.rows) for callers in args.callers):
        for setting in settings:
            bench.measure(setting, load, _WARM_UP_S)
        taken: dict[Setting, list[Figures]] = {setting: [] for setting in settings}
        for number in range(args.rounds):
            for setting in settings if number % 2 == 0 else reversed(settings):
                taken[setting].append(bench.measure(setting, load, args.seconds))
        sys.stdout.write(_report(load, taken) + "\n")
        sys.stdout.flush()
    bench.close()


if __name__ == "__main__":
    main()
