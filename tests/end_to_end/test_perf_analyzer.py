"""The stock perf_analyzer measures the default signature, a named one and an alias, with server-side statistics."""

import re
import subprocess
from pathlib import Path

import pytest

PERF_ANALYZER = Path(__file__).parents[2] / ".venv-perf/bin/perf_analyzer-signet"

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(not PERF_ANALYZER.exists(), reason="perf_analyzer is not installed: make perf-analyzer"),
]


def measure(address, *options):
    # The machine may be busy, so stability is not asked for: one short window is enough to see that it works.
    command = [
        PERF_ANALYZER, "-u", address, "-i", "grpc", "--measurement-mode", "count_windows",
        "--measurement-request-count", "100", "-s", "999", "-r", "3", *options,
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("concurrency", ["1", "16"])
@pytest.mark.parametrize(
    "options",
    [
        ("-m", "kit", "--shape", "x:4"),
        ("-m", "kit", "--shape", "x:4", "--input-data", "zero", "--request-parameter", "signature:picky:string"),
        ("-m", "kit:wide"),
        ("-m", "kit:tokens", "--shape", "ids:7"),
        ("-m", "kit:embed", "-b", "4"),
    ],
    ids=["default", "parameter", "alias", "open_dimension", "client_batch"],
)
def test_perf_analyzer_measures(server, options, concurrency):
    run = measure(server.address, *options, "--concurrency-range", concurrency)
    report = run.stdout + run.stderr

    assert run.returncode == 0, report
    counts = dict(re.findall(r"(Inference count|Execution count): (\d+)", report))
    assert int(counts["Inference count"]) > 0
    assert int(counts["Execution count"]) > 0
    assert float(re.search(r"Throughput: ([\d.]+)", report)[1]) > 0
