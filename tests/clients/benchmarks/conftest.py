"""Made-up measurements for what is made of them, and servers without a model to be measured."""

import subprocess
import sys
from contextlib import contextmanager

import pytest

from clients.benchmarks.alternation import Series
from clients.benchmarks.conditions import Conditions
from clients.benchmarks.contenders import ECHOES, ServerContender
from clients.benchmarks.figures import Measurement
from clients.benchmarks.variants import Computing


def series(contender, load, concurrency, *rates):
    measurements = tuple(Measurement(rate, 1000 / rate, 3000 / rate, 100 / rate, 1.5) for rate in rates)
    return Series(contender, Computing("CPU:0", "on", "off"), load, concurrency, measurements)


@pytest.fixture
def measured():
    """Two contenders under two loads at one concurrency, and one of them at another."""
    return [
        series("Signet", "inline", 1, 100, 300, 200),
        series("Triton", "inline", 1, 100, 100, 100),
        series("Signet", "shared memory", 1, 400, 1200, 800),
        series("Triton", "shared memory", 1, 50, 50, 50),
        series("Signet", "inline", 4, 1234, 1234, 1234),
    ]


@pytest.fixture
def conditions():
    return Conditions(
        machine="a processor, 2 cores",
        versions={"Python": "3.11.7"},
        rounds=3,
        seconds=2.5,
        max_batch_size=64,
        variants={"Signet": "", "tuned": "--instance-count 4"},
        busy=0.25,
    )


@pytest.fixture
def echo_server(tmp_path):
    """Return a context in which one of the echo servers runs."""

    @contextmanager
    def running(label):
        command = [sys.executable, "-m", "clients.benchmarks.echo", "toy", *ECHOES[label]]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                address = process.stdout.readline().split()[-1]
                yield ServerContender(
                    label, Computing(), address, process.pid, "toy", has_aliases=False, inputs=tmp_path
                )
            finally:
                process.kill()

    return running
