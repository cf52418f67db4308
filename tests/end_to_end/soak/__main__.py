"""Serve for long under a load whose every answer is known, reload the model meanwhile, and see that nothing drifts.

    python -m tests.end_to_end.soak --minutes 20

Exit status 0 means that everything held. The load is a share of what the machine can do with its callers beside it.
"""

import argparse
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import tritonclient.grpc as triton
from rich.console import Console
from rich.table import Table

from clients.server_process import ServerProcess
from tests import models
from tests.end_to_end.readings import gauge, wait_until
from tests.end_to_end.soak.traffic import EXPECTED, Traffic
from tests.end_to_end.soak.verdicts import (
    TENTHS,
    Finding,
    Sample,
    findings,
)

SHARE = 0.7
WARM_UP_S = 5
CAPACITY_S = 10
RELOAD_S = 60
SAMPLE_S = 0.5
START_S = 120
STOP_S = 60

console = Console(width=140, highlight=False)


def main():
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="signet-soak-") as directory:
        root = Path(directory)
        shutil.copytree(models.export("kit", root / "exports"), root / "models" / "kit" / "1")
        options = ["--model-control-mode", "explicit", "--load-model", "*", "--transport", arguments.transport]
        with ServerProcess(root / "models", *options) as server:
            server.wait_until_ready(START_S)
            found = soak(server, root / "models" / "kit" / "1" / "saved_model.pb", 60 * arguments.minutes)
            code = server.stop(STOP_S)
    found.append(Finding("exit code after SIGTERM", "0", str(code), code == 0))
    table = Table("what", "wanted", "seen", "")
    for each in found:
        table.add_row(each.what, each.wanted, each.seen, "so" if each.holds else "NOT SO")
    console.print(table)
    return 0 if all(each.holds for each in found) else 1


def _arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--transport", default="auto")
    return parser.parse_args()


def soak(server, graph, duration_s):
    """Return what was found under load; ``graph`` is the file whose change makes a load a new one."""
    traffic = Traffic(server.address)
    capacity = measure_capacity(traffic)
    console.print(f"{capacity:,.0f} requests/s at most; {SHARE:.0%} of that from now on, for {duration_s:,.0f} s")
    traffic.start(SHARE * capacity)
    reloads = Reloads(server.address, graph)
    try:
        samples = observe(server, traffic, duration_s)
    finally:
        reloads.stop()
        traffic.stop()
    outcomes, texts = traffic.outcomes()
    console.print(", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common()))
    for text in texts:
        console.print(text, markup=False)
    wait_until(lambda: gauge(server, "signet_requests_in_flight") == 0)
    return [*findings(outcomes, EXPECTED, samples), reloads.finding()]


def measure_capacity(traffic):
    """Return how many requests a second the server answers to callers who call again at once."""
    traffic.start()
    time.sleep(WARM_UP_S)
    before, began = traffic.count(), time.monotonic()
    time.sleep(CAPACITY_S)
    capacity = (traffic.count() - before) / (time.monotonic() - began)
    traffic.stop()
    return capacity


class Reloads:
    """Loads the model anew once a minute, until it is stopped."""

    def __init__(self, address, graph):
        self._address = address
        self._graph = graph
        self._stop = threading.Event()
        self._spans_s = []
        self._failure = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join()

    def finding(self):
        seen = f"{len(self._spans_s)}" + (f", slowest {max(self._spans_s):.1f} s" if self._spans_s else "")
        return Finding("reloads", "no failure", self._failure or seen, self._failure is None)

    def _run(self):
        with triton.InferenceServerClient(self._address) as client:
            while not self._stop.wait(RELOAD_S):
                began = time.monotonic()
                os.utime(self._graph)
                try:
                    client.load_model("kit")
                except triton.InferenceServerException as error:
                    self._failure = str(error)
                    return
                self._spans_s.append(time.monotonic() - began)


def observe(server, traffic, duration_s):
    """Return samples of the server during the load; each tenth is told as it ends."""
    process = psutil.Process(server.pid)
    began = time.monotonic()
    samples = [sample(process, traffic, began)]
    for tenth in range(1, TENTHS + 1):
        first = len(samples) - 1
        while samples[-1].at_s < duration_s * tenth / TENTHS:
            time.sleep(SAMPLE_S)
            assert traffic.is_whole, "a caller has ended by a defect of its own"
            samples.append(sample(process, traffic, began))
        tell(tenth, samples[first:], traffic.take_latencies())
    return samples


def sample(process, traffic, began):
    with process.oneshot():
        times = process.cpu_times()
        return Sample(
            at_s=time.monotonic() - began,
            requests=traffic.count(),
            resident_bytes=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            cpu_s=times.user + times.system,
        )


def tell(tenth, samples, latencies_s):
    first, last = samples[0], samples[-1]
    requests = last.requests - first.requests
    median_ms, p99_ms = 1000 * np.percentile(latencies_s, [50, 99])
    console.print(
        f"{tenth:2}/{TENTHS}  {requests / (last.at_s - first.at_s):7,.0f} requests/s  "
        f"{1e6 * (last.cpu_s - first.cpu_s) / requests:5.0f} us of CPU each  p50 {median_ms:5.1f} ms  "
        f"p99 {p99_ms:6.1f} ms  {last.resident_bytes / 2**20:6.0f} MiB  {last.descriptors} descriptors  "
        f"{last.threads} threads"
    )


if __name__ == "__main__":
    sys.exit(main())
