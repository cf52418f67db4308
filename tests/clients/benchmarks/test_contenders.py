import os
import subprocess
import sys
import time

import pytest

from clients.benchmarks.contenders import ECHOES, cpu_seconds
from clients.benchmarks.perf_analyzer import PROGRAM
from clients.benchmarks.scenarios import Load


@pytest.mark.parametrize("label", ECHOES)
@pytest.mark.end_to_end
@pytest.mark.skipif(not PROGRAM.exists(), reason="perf_analyzer is not installed: make perf-analyzer")
def test_a_server_is_measured_by_perf_analyzer_its_own_counters_and_its_cpu_time(echo_server, label):
    with echo_server(label) as contender:
        figures = contender.measure(Load("", ("scores", "scores"), least_requests=30), concurrency=4, seconds=0)

    assert figures.requests_per_s > 1
    assert 0 < figures.p50_ms <= figures.p99_ms
    assert 0 < figures.cpu_ms < 100
    assert figures.rows_per_run == 1


def test_cpu_time_includes_that_of_children():
    spin = "while True: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {spin!r}], check=False)"
    with subprocess.Popen([sys.executable, "-c", parent], start_new_session=True) as process:
        try:
            deadline = time.monotonic() + 60
            while cpu_seconds(process.pid) < 0.5 and time.monotonic() < deadline:
                os.sched_yield()
            assert cpu_seconds(process.pid) >= 0.5
        finally:
            os.killpg(process.pid, 9)
