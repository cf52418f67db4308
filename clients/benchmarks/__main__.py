"""``python -m clients.benchmarks``: measure Signet beside Triton and beside what the machine can do at best.

With the environment variable PEERS, a directory with a Triton set-up (docs/benchmarks/README.md), Triton is measured on
the same models in turns with Signet. Each scenario leaves a page and a chart.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from clients.benchmarks import chart, connections, perf_analyzer
from clients.benchmarks.alternation import alternate
from clients.benchmarks.bare_process import BareProcessError
from clients.benchmarks.conditions import Conditions, describe_machine, installed_versions
from clients.benchmarks.contenders import ContenderError, start
from clients.benchmarks.perf_analyzer import PerfAnalyzerError
from clients.benchmarks.report import to_markdown
from clients.benchmarks.scenarios import SCENARIOS as LOADS
from clients.benchmarks.scenarios import Scenario
from clients.benchmarks.triton import TritonError
from clients.benchmarks.variants import Variant
from clients.server_process import ServerProcessError

_SHORT_SECONDS: Final = 0.9
_SHORT_ROUNDS: Final = 3
SCENARIOS: Final = {**LOADS, connections.SCENARIO.name: connections.SCENARIO}


@dataclass(frozen=True)
class Run:
    """What the command line asks for; without variants, those of each scenario."""

    scenarios: tuple[Scenario, ...]
    variants: tuple[Variant, ...]
    rounds: int
    seconds: float
    peers: Path | None
    output: Path
    work: Path


def main() -> int:
    """Measure and return the exit code."""
    if not perf_analyzer.PROGRAM.exists():
        print("perf_analyzer is not installed: make perf-analyzer", file=sys.stderr)
        return 2
    options = _parser().parse_args()
    with tempfile.TemporaryDirectory(prefix="signet-bench-") as temporary:
        try:
            measure_all(_to_run(options, Path(temporary)))
        except (ServerProcessError, TritonError, PerfAnalyzerError, BareProcessError, ContenderError) as error:
            print(f"\nThe benchmark failed. {error}", file=sys.stderr)
            return 1
    return 0


def measure_all(run: Run) -> None:
    """Measure the scenarios one after the other; each leaves its page as soon as it is done."""
    _export({scenario.model for scenario in run.scenarios}, run.work / "models")
    run.output.mkdir(parents=True, exist_ok=True)
    for scenario in run.scenarios:
        print(f"-- {scenario.name}: {scenario.title}", flush=True)
        conditions = _conditions(run, scenario)
        make_page = _page_of_connections if scenario.name == connections.NAME else _page
        page = make_page(run, scenario, conditions)
        (run.output / f"{scenario.name}.md").write_text(page)
        print(page, flush=True)


def _page(run: Run, scenario: Scenario, conditions: Conditions) -> str:
    begun = time.monotonic()
    with start(scenario, _variants(run, scenario), run.peers, run.work) as contenders:
        print(f"   started in {time.monotonic() - begun:.0f} s", flush=True)
        series = alternate(contenders, scenario.loads, scenario.concurrencies, run.rounds, run.seconds, _tell)
    print(f"   {time.monotonic() - begun:.0f} s in all", flush=True)
    picture = f"{scenario.name}.svg"
    chart.draw(run.output / picture, scenario.title, series)
    return to_markdown(scenario.title, series, conditions, picture)


def _page_of_connections(run: Run, scenario: Scenario, conditions: Conditions) -> str:
    taken = connections.measure(_variants(run, scenario), run.peers, run.work, run.rounds, _tell)
    return connections.to_markdown(taken, conditions)


def _tell(what: str) -> None:
    print(f"   {time.strftime('%H:%M:%S')} {what}", flush=True)


def _export(models: set[str], directory: Path) -> None:
    """Make the models that are not there yet, in another process: TensorFlow would take memory and threads here."""
    missing = [model for model in sorted(models) if not (directory / model).exists()]
    if not missing:
        return
    directory.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "clients.benchmarks.export", str(directory), *missing]
    subprocess.run(command, check=True, env=environment)


def _conditions(run: Run, scenario: Scenario) -> Conditions:
    return Conditions(
        machine=describe_machine(),
        versions=installed_versions(),
        rounds=run.rounds,
        seconds=run.seconds,
        max_batch_size=scenario.max_batch_size,
        variants={variant.label: " ".join(variant.options) for variant in _variants(run, scenario)},
        busy=os.getloadavg()[0],
    )


def _variants(run: Run, scenario: Scenario) -> tuple[Variant, ...]:
    return run.variants or scenario.variants


def _to_run(options: argparse.Namespace, temporary: Path) -> Run:
    peers = os.environ.get("PEERS")
    return Run(
        scenarios=_choose(options.scenarios, short=options.short),
        variants=tuple(map(Variant.parse, options.variant or ())),
        rounds=options.pairs or (_SHORT_ROUNDS if options.short else 5),
        seconds=options.seconds or (_SHORT_SECONDS if options.short else 3.0),
        peers=Path(peers) if peers else None,
        output=options.output,
        work=options.work or temporary,
    )


def _choose(names: Sequence[str], *, short: bool) -> tuple[Scenario, ...]:
    if not short:
        return tuple(SCENARIOS[name] for name in names or SCENARIOS)
    chosen = names or [scenario.name for scenario in SCENARIOS.values() if scenario.short]
    return tuple(map(_shortened, chosen))


def _shortened(name: str) -> Scenario:
    scenario = SCENARIOS[name]
    return replace(scenario, concurrencies=scenario.short or scenario.concurrencies[:1], echo=False)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m clients.benchmarks", description=__doc__)
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"any of {', '.join(SCENARIOS)}; all if none")
    parser.add_argument("--short", action="store_true", help="fewer and shorter, under 3 minutes in all")
    parser.add_argument("--pairs", type=int, help="how often everything is measured (default 5; 3 with --short)")
    parser.add_argument("--seconds", type=float, help="how long each measurement lasts (default 3)")
    parser.add_argument(
        "--variant",
        action="append",
        metavar="LABEL[=OPTIONS]",
        help="measure Signet with these options of signet serve, among them xla=... or mixed_precision=... for the "
        "model; may be repeated",
    )
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"), help="where pages and charts go")
    parser.add_argument("--work", type=Path, help="keep the exported models and logs here")
    return parser


if __name__ == "__main__":
    sys.exit(main())
