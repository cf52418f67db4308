"""Runs the stock perf_analyzer and reads what it writes."""

import csv
import statistics
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(__file__).parents[2] / ".venv-perf/bin/perf_analyzer-signet"
_WINDOWS: Final = 3
"""perf_analyzer compares three windows; its figures are those of all three together."""
_ANY_SPREAD: Final = "1000000"
"""Percent by which the windows may differ. A busy machine never settles; here the pairs show how steady it was."""
_OUTPUT_BYTES: Final = "1048576"


class PerfAnalyzerError(Exception):
    """perf_analyzer failed or wrote something unexpected; the text carries what it said."""


@dataclass(frozen=True)
class ClientFigures:
    """What the load generator saw."""

    rows_per_s: float
    p50_us: float
    p99_us: float


def measure(address: str, targets: Sequence[Sequence[str]], options: Sequence[str], timeout_s: float) -> ClientFigures:
    """Run one perf_analyzer per target at the same time and return what they saw together.

    Args:
        address: host and port of the server's gRPC.
        targets: for each the options that name the model, and the signature if the model's name does not.
        options: what they have in common; ``for_seconds`` or ``for_requests`` and those of the load.
        timeout_s: after so many seconds it has failed.

    Returns:
        The sum of what they got through, the mean of their medians, and the greatest 99th percentile.

    Raises:
        PerfAnalyzerError: one failed.
    """
    with tempfile.TemporaryDirectory(prefix="signet-bench-") as directory:
        outputs = [Path(directory, f"{number}.csv") for number in range(len(targets))]
        runs = [
            subprocess.Popen(
                [*_command(address), *target, *options, "-f", str(output)],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for target, output in zip(targets, outputs, strict=True)
        ]
        _wait(runs, timeout_s)
        figures = [parse(output.read_text()) for output in outputs]
    return ClientFigures(
        sum(one.rows_per_s for one in figures),
        statistics.mean(one.p50_us for one in figures),
        max(one.p99_us for one in figures),
    )


def parse(text: str) -> ClientFigures:
    """Read the file that ``-f`` writes, for one concurrency.

    Raises:
        PerfAnalyzerError: it holds no figures or several.
    """
    rows = list(csv.DictReader(text.splitlines()))
    if len(rows) != 1:
        raise PerfAnalyzerError(f"perf_analyzer wrote {len(rows)} lines of figures instead of one:\n{text}")
    try:
        columns = ("Inferences/Second", "p50 latency", "p99 latency")
        return ClientFigures(*(float(rows[0][column]) for column in columns))
    except (KeyError, TypeError, ValueError) as error:
        raise PerfAnalyzerError(f"perf_analyzer wrote figures that are none ({error}):\n{text}") from error


def for_seconds(seconds: float) -> list[str]:
    """Return the options for a measurement of so many seconds, after a start of a fraction of a second."""
    return ["--measurement-interval", str(max(1, round(seconds * 1000 / _WINDOWS)))]


def for_requests(requests: int) -> list[str]:
    """Return the options for a measurement of at least so many requests, however long that takes."""
    window = max(1, -(-requests // _WINDOWS))
    return ["--measurement-mode", "count_windows", "--measurement-request-count", str(window)]


def shared_memory_options() -> list[str]:
    """Return the options with which tensors go through system shared memory, outputs of up to a mebibyte included."""
    return ["--shared-memory", "system", "--output-shared-memory-size", _OUTPUT_BYTES]


def _command(address: str) -> list[str]:
    quiet = ["--stability-percentage", _ANY_SPREAD, "--max-trials", str(_WINDOWS)]
    return [str(PROGRAM), "-u", address, "-i", "grpc", *quiet]


def _wait(runs: Sequence[subprocess.Popen[str]], timeout_s: float) -> None:
    """Wait for all; whatever happens none is left behind."""
    try:
        for run in runs:
            said, _ = run.communicate(timeout=timeout_s)
            if run.returncode != 0:
                raise PerfAnalyzerError(f"perf_analyzer ended with exit code {run.returncode}:\n{said}")
    except subprocess.TimeoutExpired as error:
        raise PerfAnalyzerError(f"perf_analyzer did not end within {timeout_s:g} s") from error
    finally:
        for run in runs:
            run.kill()
            run.communicate()
