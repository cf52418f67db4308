"""The checks for machines with a GPU, as far as logical devices of the CPU go."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.end_to_end, pytest.mark.slow]

TIMEOUT_S = 240
ONLY_ON_A_GPU = {"device found", "limit", "two workers", "CUDA shared memory"}


def test_every_promise_is_kept_on_two_logical_devices_and_what_needs_a_gpu_is_named():
    run = subprocess.run(
        [sys.executable, "-m", "clients.gpu_check", "--device", "cpu:0,1"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in run.stdout.splitlines() if "│" in line]
    verdicts = {name: ok for name, _, _, ok in rows if name and ok}
    assert {name for name, ok in verdicts.items() if ok == "-"} == ONLY_ON_A_GPU
    assert {name for name, ok in verdicts.items() if ok == "yes"} == verdicts.keys() - ONLY_ON_A_GPU
    assert {name for _, _, seen, ok in rows if seen == "not checked: no GPU" for name in [ok]} == {"-"}
    assert len(verdicts) == 16
