"""Who is measured: servers that stock clients can ask, and what they cost while they are asked."""

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import psutil
from tritonclient.grpc import InferenceServerClient

from clients.benchmarks import perf_analyzer
from clients.benchmarks.bare_process import BareProcess
from clients.benchmarks.figures import Measurement
from clients.benchmarks.inputs import write_input_file
from clients.benchmarks.models import MODELS
from clients.benchmarks.scenarios import Load, Scenario
from clients.benchmarks.triton import TritonProcess, write_repository
from clients.benchmarks.variants import OFF, Computing, Variant
from clients.benchmarks.variants import write_repository as write_configured
from clients.server_process import ServerProcess

_START_TIMEOUT_S: Final = 600.0
_STATISTICS_TIMEOUT_S: Final = 10.0
_MEASUREMENT_TIMEOUT_S: Final = 300.0
TRITON: Final = "Triton"
ECHOES: Final = {"grpcio echo": (), "native echo": ("--native",)}
_DEVICE_RUNS: Final = "signet_device_runs_total"


class ContenderError(Exception):
    """A contender did not start."""


class Contender(Protocol):
    """Something that is measured."""

    @property
    def label(self) -> str:
        """What tables and charts call it."""

    @property
    def computing(self) -> Computing:
        """How it computes."""

    def measure(self, load: Load, concurrency: int, seconds: float) -> Measurement:
        """Put it under a load for some seconds."""


@dataclass(frozen=True)
class Counts:
    """What a server has done since its start."""

    requests: int
    rows: int
    runs: int


@dataclass(frozen=True)
class ServerContender:
    """A server that runs and is asked by perf_analyzer.

    Attributes:
        label: see ``Contender``.
        computing: likewise.
        address: host and port of gRPC.
        pid: its process; what its children do counts, too.
        model: the model's name.
        has_aliases: whether MODEL:SIGNATURE names a signature; otherwise a request parameter does.
        inputs: a directory for perf_analyzer's input files.
    """

    label: str
    computing: Computing
    address: str
    pid: int
    model: str
    has_aliases: bool
    inputs: Path

    def measure(self, load: Load, concurrency: int, seconds: float) -> Measurement:
        """See ``Contender``.

        CPU time and counters are read before and after the load, so that every request that costs is counted, also
        those before and between perf_analyzer's windows.
        """
        names = sorted({self._name(signature) for signature in load.signatures})
        before, cpu_before_s = self._counts(names), cpu_seconds(self.pid)
        seen = perf_analyzer.measure(
            self.address, self._targets(load), self._options(load, concurrency, seconds), _MEASUREMENT_TIMEOUT_S
        )
        after, cpu_after_s = self._counts(names), cpu_seconds(self.pid)
        return Measurement(
            requests_per_s=seen.rows_per_s / load.rows,
            p50_ms=seen.p50_us / 1e3,
            p99_ms=seen.p99_us / 1e3,
            cpu_ms=(cpu_after_s - cpu_before_s) * 1e3 / (after.requests - before.requests),
            rows_per_run=(after.rows - before.rows) / (after.runs - before.runs),
        )

    def _name(self, signature: str) -> str:
        return f"{self.model}:{signature}" if self.has_aliases else self.model

    def _targets(self, load: Load) -> list[list[str]]:
        targets = []
        for signature in load.signatures:
            tensor = MODELS[self.model].signatures[signature].input
            path = self.inputs / f"{self.model}-{tensor.name}.json"
            if not path.exists():
                write_input_file(path, tensor)
            target = ["-m", self._name(signature), "--input-data", str(path)]
            targets.append(
                target if self.has_aliases else [*target, "--request-parameter", f"signature:{signature}:string"]
            )
        return targets

    def _options(self, load: Load, concurrency: int, seconds: float) -> list[str]:
        callers = concurrency // len(load.signatures)
        shared_memory = perf_analyzer.shared_memory_options() if load.shared_memory else []
        requests = load.least_requests
        duration = perf_analyzer.for_requests(requests) if requests else perf_analyzer.for_seconds(seconds)
        return [*duration, "-b", str(load.rows), "--concurrency-range", str(callers), *shared_memory]

    def _counts(self, names: Sequence[str]) -> Counts:
        with InferenceServerClient(self.address) as client:
            answers = [client.get_inference_statistics(name, client_timeout=_STATISTICS_TIMEOUT_S) for name in names]
        models = [model for answer in answers for model in answer.model_stats]
        return Counts(
            sum(model.inference_stats.success.count for model in models),
            sum(model.inference_count for model in models),
            sum(model.execution_count for model in models),
        )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process and its children have used, in user and in system mode."""
    root = psutil.Process(pid)
    times = [process.cpu_times() for process in (root, *root.children(recursive=True))]
    return sum(time.user + time.system for time in times)


@contextmanager
def start(scenario: Scenario, variants: Iterable[Variant], peers: Path | None, work: Path) -> Iterator[list[Contender]]:
    """Start all contenders of a scenario; they are gone after the ``with`` block.

    Args:
        scenario: what is measured.
        variants: the ways to start Signet.
        peers: where Triton is; None leaves it out.
        work: a directory that holds ``models`` and takes everything else.

    Raises:
        ServerProcessError: Signet did not start.
        TritonError: Triton did not.
        ContenderError: an echo server did not.
    """
    model = work / "models" / scenario.model
    with ExitStack() as stack:
        contenders: list[Contender] = [_start_signet(stack, scenario, variant, model, work) for variant in variants]
        if peers is not None:
            contenders.append(_start_triton(stack, scenario, peers, model, work))
        if scenario.echo:
            contenders += [_start_echo(stack, label, scenario, work) for label in ECHOES]
        if scenario.bare:
            contenders.append(stack.enter_context(BareProcess(model)))
        yield contenders


def _start_signet(stack: ExitStack, scenario: Scenario, variant: Variant, model: Path, work: Path) -> ServerContender:
    options = ("--default-max-batch-size", str(scenario.max_batch_size), "--warm-up-timeout", str(_START_TIMEOUT_S))
    known = MODELS[scenario.model].signatures
    signatures = {name: known[name] for load in scenario.loads for name in load.signatures}
    if variant.needs_configuration or not all(signature.input.dims for signature in signatures.values()):
        repository = work / f"signet-{scenario.name}-{variant.label}"
        write_configured(repository, variant, model, signatures)
        model = repository
    process = stack.enter_context(ServerProcess(model, *options, *variant.options))
    process.wait_until_ready(_START_TIMEOUT_S)
    devices = ", ".join(labels["device"] for labels, _ in process.metric(_DEVICE_RUNS))
    computing = Computing(devices, variant.xla, variant.mixed_precision)
    return _server(variant.label, computing, process, scenario, work, has_aliases=True)


def _start_triton(stack: ExitStack, scenario: Scenario, peers: Path, model: Path, work: Path) -> ServerContender:
    repository = work / f"triton-{scenario.name}"
    write_repository(repository, MODELS[scenario.model], model, scenario.max_batch_size)
    process = stack.enter_context(TritonProcess(peers, repository))
    process.wait_until_ready(_START_TIMEOUT_S)
    return _server(TRITON, Computing("CPU:0", OFF, OFF), process, scenario, work, has_aliases=False)


def _start_echo(stack: ExitStack, label: str, scenario: Scenario, work: Path) -> ServerContender:
    command = [sys.executable, "-m", "clients.benchmarks.echo", scenario.model, *ECHOES[label]]
    process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    announced = process.stdout.readline() if process.stdout else ""
    if not announced:
        raise ContenderError(f"the {label} server did not start; its standard error says why")
    address = announced.split()[-1]
    return ServerContender(label, Computing(), address, process.pid, scenario.model, has_aliases=False, inputs=work)


def _server(
    label: str,
    computing: Computing,
    process: ServerProcess | TritonProcess,
    scenario: Scenario,
    work: Path,
    *,
    has_aliases: bool,
) -> ServerContender:
    return ServerContender(label, computing, process.address, process.pid, scenario.model, has_aliases, work)
