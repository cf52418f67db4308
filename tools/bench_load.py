"""Measure what a load takes, beside ``tf.compat.v1.saved_model.load`` of the same SavedModel.

    python -m tools.bench_load PATH [--rounds N]

Each load is made in a process of its own, and the ways to load take turns. Prints medians, step by step: CPU seconds,
seconds, and by how many MiB the process grew. ``whole graph`` loads as the server does, but imports all of the graph.
"""

import argparse
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple
from unittest import mock

from rich.console import Console
from rich.table import Table

_LAST_STEP_OF_LOAD: Final = "choosing how signatures run"
"""What the server does after it makes the first request fast; a bare load leaves that to the first request."""


class Step(NamedTuple):
    """What one step of a load took."""

    name: str
    cpu_s: float
    wall_s: float
    mib: float


class Recorder(logging.Handler):
    """Notes what was used up since the last note; as a handler, at the end of each step that the log tells of."""

    def __init__(self) -> None:
        """Begin now."""
        super().__init__(logging.DEBUG)
        self.steps: list[Step] = []
        self._before = _used()

    def emit(self, record: logging.LogRecord) -> None:
        """Note the step whose end is logged."""
        self.note(record.getMessage().partition(":")[0])

    def note(self, step: str) -> None:
        """Note the end of a step."""
        now = _used()
        self.steps.append(Step(step, *(after - before for after, before in zip(now, self._before, strict=True))))
        self._before = now


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=_WAYS, help="load once in this way and print the figures as JSON")
    arguments = parser.parse_args()
    if arguments.way:
        sys.stdout.write(json.dumps(_WAYS[arguments.way](arguments.path)))
    else:
        _compare(arguments.path, arguments.rounds)


def _used() -> tuple[float, float, float]:
    resident = Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]
    return time.process_time(), time.monotonic(), int(resident) / 1024


# The ways. What it takes to import a program is not part of a load. -------------------------------------------------


def _load_bare(path: Path) -> list[Step]:
    import tensorflow as tf  # noqa: PLC0415

    recorder = Recorder()
    session = tf.compat.v1.Session(graph=tf.Graph())
    with session.graph.as_default():
        signatures = tf.compat.v1.saved_model.load(session, ["serve"], str(path)).signature_def.values()
    recorder.note("load")
    for signature in signatures:
        feeds = {each.name: _zeros(each) for each in signature.inputs.values()}
        try:
            session.run([each.name for each in signature.outputs.values()], feeds)
        except tf.errors.OpError as error:  # such as a decoder of pictures, which zeros do not suit
            logging.getLogger(__name__).info("%s", error.message)
    recorder.note("first run of each signature")
    return recorder.steps


def _zeros(info: Any) -> Any:
    import tensorflow as tf  # noqa: PLC0415

    shape = [max(1, dim.size) for dim in info.tensor_shape.dim]
    return tf.zeros(shape, info.dtype).numpy()


def _load_served(path: Path) -> list[Step]:
    from protos.model_config_pb2 import ModelConfig  # noqa: PLC0415
    from service.loading import VersionLoader, configure_runtime  # noqa: PLC0415
    from service.settings import Settings  # noqa: PLC0415

    settings = Settings.model_validate({})
    configure_runtime({}, settings)
    from service.saved_model import loader, sessions  # noqa: F401, PLC0415 - only now may TensorFlow start

    sessions.prepare_tensorflow()
    versions = VersionLoader(settings)
    recorder = Recorder()
    steps = logging.getLogger("service.timed_steps")
    steps.setLevel(logging.DEBUG)
    steps.addHandler(recorder)
    versions.load("model", 1, path, ModelConfig())
    recorder.note("warm-up")
    return recorder.steps


def _load_whole_graph(path: Path) -> list[Step]:
    with mock.patch("service.saved_model.refinement.prune", lambda graph, _roots: graph):
        return _load_served(path)


_WAYS: Final[dict[str, Callable[[Path], list[Step]]]] = {
    "bare": _load_bare,
    "served": _load_served,
    "whole graph": _load_whole_graph,
}


# The comparison. ----------------------------------------------------------------------------------------------------


def _compare(path: Path, rounds: int) -> None:
    runs: dict[str, list[list[Step]]] = {way: [] for way in _WAYS}
    for _ in range(rounds):
        for way, of_way in runs.items():
            of_way.append(_load_in_process(way, path))
    console = Console()
    for way, of_way in runs.items():
        console.print(_table(way, of_way))
    for way in ("served", "whole graph"):
        pairs = list(zip(map(_load_alone, runs[way]), (bare[0] for bare in runs["bare"]), strict=True))
        cpu = _spread([ours.cpu_s / bare.cpu_s for ours, bare in pairs])
        memory = _spread([ours.mib / bare.mib for ours, bare in pairs])
        console.print(
            f"{way}: the load up to '{_LAST_STEP_OF_LOAD}' took {cpu} of the bare one's CPU, {memory} of its memory"
        )


def _load_in_process(way: str, path: Path) -> list[Step]:
    command = [sys.executable, "-m", "tools.bench_load", str(path), "--way", way]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, text=True)  # noqa: S603 - our own
    return [Step(*step) for step in json.loads(done.stdout)]


def _load_alone(steps: list[Step]) -> Step:
    count = [step.name for step in steps].index(_LAST_STEP_OF_LOAD) + 1
    cpu_s, wall_s, mib = (sum(values) for values in list(zip(*steps[:count], strict=True))[1:])
    return Step("load", cpu_s, wall_s, mib)


def _spread(ratios: list[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _table(way: str, runs: list[list[Step]]) -> Table:
    table = Table("step", "CPU seconds", "seconds", "MiB", title=way)
    for steps in zip(*runs, strict=True):
        cpu_s, wall_s, mib = (statistics.median(values) for values in list(zip(*steps, strict=True))[1:])
        table.add_row(steps[0].name, f"{cpu_s:.2f}", f"{wall_s:.2f}", f"{mib:.0f}")
    return table


if __name__ == "__main__":
    main()
