"""``python -m clients.demo``: train a model, serve it, ask every signature, check every answer.

The exit code is 0 only if every answer was right.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clients.demo.calls import Request, plan
from clients.demo.quality import Quality, collect, measure
from clients.demo.report import Line, describe_tensors, read_counters, to_table
from clients.demo.traffic import Outcome, send_all
from clients.server_process import ServerProcess, ServerProcessError

_MODEL: Final = "digits"
_PASSES: Final = 4
_MAX_ROWS: Final = 5
_THREADS: Final = 8
_QUEUE_DELAY_US: Final = 2000
_TRAFFIC_TIMEOUT_S: Final = 60.0
_START_TIMEOUT_S: Final = 60.0
_STOP_TIMEOUT_S: Final = 60.0
_WIDTH_OF_LOGS: Final = 140


def main() -> int:
    """Run the demo and return the exit code."""
    description = "Train a small model, serve it, ask every signature with stock clients, check every answer."
    parser = argparse.ArgumentParser(prog="python -m clients.demo", description=description)
    parser.add_argument("--model-dir", type=Path, help="keep the exported model here, as MODEL_DIR/digits")
    model_dir = parser.parse_args().model_dir
    # TensorFlow reads these when it is imported; they keep its notes about the machine off the terminal.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    with tempfile.TemporaryDirectory(prefix="signet-demo-") as temporary:
        try:
            return 0 if run(Path(model_dir or temporary) / _MODEL) else 1
        except ServerProcessError as error:
            print(f"\nThe demo failed. {error}", file=sys.stderr)
            return 1


def run(directory: Path) -> bool:
    """Tell the whole story with the model in ``directory`` and return whether every answer was right."""
    with _step("Import TensorFlow"):
        # Only now, since it takes seconds: the user should see first what is going on.
        from clients.demo import preparation  # noqa: PLC0415
    with _step(f"Train on handwritten digits, export to {directory}"):
        held_out = preparation.train_and_export(directory)
    with _step(f"Run the export in plain TensorFlow on {len(held_out.labels)} other pictures, for the right answers"):
        calls = preparation.answer_in_process(directory, held_out)
    requests = plan(calls, _PASSES, _MAX_ROWS, np.random.default_rng(0))
    with ServerProcess(directory, "--max-queue-delay-us", str(_QUEUE_DELAY_US)) as server:
        with _step(f"Start the server on the export; a batch may wait {_QUEUE_DELAY_US / 1000:g} ms for company"):
            server.wait_until_ready(_START_TIMEOUT_S)
        try:
            lines = _ask(server, requests, held_out.labels)
        except InferenceServerException as error:
            raise server.failure(f"A request about the model failed: {error}") from error
        with _step("Stop the server (SIGTERM)"):
            exit_code = server.stop(_STOP_TIMEOUT_S)
        if exit_code != 0:
            raise server.failure("The server did not finish as it should")
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_LOGS).print(to_table(lines))
    return _conclude(lines)


def _ask(server: ServerProcess, requests: list[Request], labels: np.ndarray) -> list[Line]:
    """Send all requests, then ask the server what it did for them."""
    before = server.resident_mib()
    with _step(f"Send {len(requests):,} requests of 1 to {_MAX_ROWS} rows, signatures mixed, from {_THREADS} threads"):
        outcomes = send_all(server.address, _MODEL, requests, _THREADS, _TRAFFIC_TIMEOUT_S)
    print(f"   Memory of the server: {before:.0f} MiB before, {server.resident_mib():.0f} MiB after")
    faulty = [outcome for outcome in outcomes if outcome.fault]
    if faulty:
        first_of_each = {outcome.request.call.signature: outcome for outcome in reversed(faulty)}
        print(*(f"   Wrong: {outcome.request}: {outcome.fault}" for outcome in first_of_each.values()), sep="\n")
        print(f"   The last lines of the server's log:\n{server.end_of_log()}")
    quality = {} if faulty else measure(collect(outcomes), labels)
    with InferenceServerClient(server.address) as client:
        return _to_lines(client, outcomes, quality)


def _to_lines(client: InferenceServerClient, outcomes: list[Outcome], quality: dict[str, Quality]) -> list[Line]:
    lines = []
    for signature in sorted({outcome.request.call.signature for outcome in outcomes}):
        mine = [outcome for outcome in outcomes if outcome.request.call.signature == signature]
        faults = sum(outcome.fault is not None for outcome in mine)
        batches, rows = read_counters(client, _MODEL, signature, len(mine) - faults)
        tensors = describe_tensors(client, _MODEL, signature)
        lines.append(Line(signature, tensors, len(mine), faults, batches, rows, quality.get(signature)))
    return lines


def _conclude(lines: list[Line]) -> bool:
    bad = [line.signature for line in lines if not line.good]
    if bad:
        print(f"Not good: {', '.join(bad)}.")
        return False
    print(f"Every one of {sum(line.requests for line in lines):,} answers was right, all from one loaded model.")
    return True


@contextmanager
def _step(text: str) -> Iterator[None]:
    """Say what is being done, and after it how long it took."""
    print(f"-- {text} ...", end=" ", flush=True)
    started = time.monotonic()
    yield
    print(f"{time.monotonic() - started:.1f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
