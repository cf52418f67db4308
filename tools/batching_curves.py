"""Measures what batching does for a signature, and draws it for docs/batching.md.

``python -m tools.batching_curves docs/pictures/batching.svg``. One server has the same export three times, in one copy:
without batches, with the defaults, with a delay. They are measured by turns, and what counts are the ratios to the one
without batches in the same turn: what disturbs the machine disturbs all.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np
import tensorflow as tf
from matplotlib.figure import Figure
from tritonclient.grpc import InferenceServerClient

from clients.command_line import load_test
from clients.command_line.description import describe
from clients.command_line.infer import to_infer_inputs
from clients.command_line.observation import counters_of_signature
from clients.server_process import ServerProcess

_WIDTH: Final = 2048
_LAYERS: Final = 4
_CALLERS: Final = (1, 2, 4, 8, 16, 32, 64)
_TURNS: Final = 9
_SECONDS: Final = 0.3
_START_S: Final = 120
_MODELS: Final = {
    "off": ("no batches", "max_batch_size: 1"),
    "default": ("defaults", ""),
    "delay": ("delay of 5 ms", "max_batch_size: 64 dynamic_batching { max_queue_delay_microseconds: 5000 }"),
}
_SIGNATURE: Final = "encode"
_STYLE: Final[Any] = {"svg.fonttype": "none", "svg.hashsalt": "signet", "font.size": 9}

Point = tuple[float, ...]
"""Answers a second, 99th percentile in ms, rows in a run; in the result the first two as ratios."""


def main(picture: Path) -> None:
    """Measure, print the figures and write the picture."""
    with tempfile.TemporaryDirectory() as directory:
        repository = _write_repository(Path(directory))
        with ServerProcess(repository) as server:
            server.wait_until_ready(_START_S)
            ratios = {callers: _measure_by_turns(server.address, callers) for callers in _CALLERS}
    for callers, by_model in ratios.items():
        for model, figures in by_model.items():
            text = "{:3} callers, {:8}: throughput x{:.2f}, p99 x{:.2f}, rows/run {:.1f}"
            sys.stdout.write(text.format(callers, model, *figures) + "\n")
    _draw(picture, ratios)


def _write_repository(root: Path) -> Path:
    _export(root / "export")
    for model, (_, signature) in _MODELS.items():
        version = root / "models" / model / "1"
        version.mkdir(parents=True)
        (version / "model.savedmodel").symlink_to(root / "export")
        (version.parent / "config.pbtxt").write_text(f'signatures {{ key: "{_SIGNATURE}" value {{ {signature} }} }}')
    return root / "models"


def _export(directory: Path) -> None:
    """Write a dense network, whose weights (64 MiB) are read from memory once for each run, whatever its rows."""
    module = tf.Module()
    random = np.random.default_rng(0)
    scale = np.float32(_WIDTH**-0.5)
    module.weights = [tf.Variable(random.standard_normal((_WIDTH, _WIDTH), np.float32) * scale) for _ in range(_LAYERS)]

    @tf.function(input_signature=[tf.TensorSpec([None, _WIDTH], tf.float32, name="x")])  # type: ignore[untyped-decorator]
    def encode(x: Any) -> dict[str, Any]:
        for weights in module.weights:
            x = tf.nn.relu(x @ weights)
        return {"y": x}

    module.encode = encode
    tf.saved_model.save(module, str(directory), signatures={_SIGNATURE: encode})


def _measure_by_turns(url: str, callers: int) -> dict[str, Point]:
    """Return for each model the medians of the ratios to the first one in the same turn."""
    with InferenceServerClient(url) as client:
        turns = [[_measure(client, url, model, callers) for model in _MODELS] for _ in range(_TURNS)]
    table = np.array(turns)  # [turns, models, figures]
    table[..., :2] /= table[:, :1, :2]
    return {model: tuple(row.tolist()) for model, row in zip(_MODELS, np.median(table, axis=0), strict=True)}


def _measure(client: InferenceServerClient, url: str, model: str, callers: int) -> Point:
    target = describe(client, model, _SIGNATURE)
    inputs = to_infer_inputs(target, {"x": np.ones((1, _WIDTH), np.float32)})
    before = counters_of_signature(client, model, _SIGNATURE)
    run = load_test.run(url, target, inputs, rows=1, concurrency=callers, duration_s=_SECONDS, tick=lambda _: None)
    result = asyncio.run(run)
    counted = counters_of_signature(client, model, _SIGNATURE) - before
    return result.per_second, result.percentile_ms(99), counted.rows_per_run or 0.0


def _draw(picture: Path, ratios: dict[int, dict[str, Point]]) -> None:
    panels = ("throughput / throughput without batches", "p99 / p99 without batches", "rows in a run")
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        for number, (axes, title) in enumerate(zip(figure.subplots(1, len(panels)), panels, strict=True)):
            for model, (label, _) in _MODELS.items():
                axes.plot(_CALLERS, [ratios[each][model][number] for each in _CALLERS], marker="o", label=label)
            axes.set_title(title)
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.set_xlabel("callers at a time")
            axes.set_ylim(bottom=0)
            axes.grid(alpha=0.3)
            if number == 0:
                axes.legend()
        figure.savefig(picture, format="svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
