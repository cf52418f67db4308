"""The benchmark as its user runs it, as short as it can be, with Triton where PEERS names one."""

import os
import subprocess
import sys

import pytest

from clients.benchmarks.perf_analyzer import PROGRAM

pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.slow,
    pytest.mark.skipif(not PROGRAM.exists(), reason="perf_analyzer is not installed: make perf-analyzer"),
]


@pytest.mark.parametrize("scenario", ["toy", "pictures"])
def test_the_benchmark_leaves_a_page_with_figures_of_every_contender(scenario, tmp_path):
    command = [sys.executable, "-m", "clients.benchmarks", scenario, "--short", "--pairs", "1", "--seconds", "0.6"]
    variants = ["--variant", "two workers=--instance-count 2", "--variant", "one worker=--instance-count 1 xla=on"]
    run = subprocess.run(
        [*command, *variants, "--output", tmp_path], capture_output=True, text=True, timeout=280, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr
    page = (tmp_path / f"{scenario}.md").read_text()
    for contender in ("two workers", "one worker", *(["Triton"] if "PEERS" in os.environ else [])):
        assert f"| {contender} | CPU:0 | " in page
    assert "| one worker | CPU:0 | on | off |" in page
    assert "two workers / one worker" in page
