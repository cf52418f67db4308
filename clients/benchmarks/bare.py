"""The physical limit: a loop over the model in a process without any server.

It writes the device that it runs on. Then it reads one order per line from standard input, a JSON object with the
fields of ``Order``, runs it, and writes the figures as a line of JSON; it ends with its input.
``clients.benchmarks.bare_process`` is the other side.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf.config_pb2 import CallableOptions

from clients.benchmarks.inputs import make_batch
from clients.benchmarks.models import MODELS

_IN_THE_CALLING_THREAD: Final = -1
Run = Callable[[np.ndarray], list[Any]]


@dataclass(frozen=True)
class Order:
    """What to run: a signature on so many rows, again and again, in so many threads, for so many seconds."""

    signature: str
    rows: int
    threads: int
    seconds: float


class Loop:
    """A SavedModel in a Session, set up like in the server: a prepared callable per signature."""

    def __init__(self, path: Path, intra_op_threads: int, inter_op_threads: int, *, pool: bool) -> None:
        config = tf.compat.v1.ConfigProto(
            intra_op_parallelism_threads=intra_op_threads, inter_op_parallelism_threads=inter_op_threads
        )
        self._session = tf.compat.v1.Session(graph=tf.Graph(), config=config)
        with self._session.graph.as_default():
            self._signatures = tf.compat.v1.saved_model.load(self._session, ["serve"], str(path)).signature_def
        self._model = MODELS[path.name]
        self._pool = pool
        self._prepared: dict[str, Run] = {}

    @property
    def device(self) -> str:
        """The device that TensorFlow prefers here, such as ``GPU:0``."""
        names = [each.name.rpartition("device:")[2] for each in self._session.list_devices()]
        return next((name for name in names if name.startswith("GPU")), "CPU:0")

    def run(self, order: Order) -> dict[str, float]:
        """Return the figures of ``Measurement`` for an order."""
        run = self._prepare(order.signature)
        batch = make_batch(self._model.signatures[order.signature].input, order.rows)
        run(batch)
        cpu_s, started = time.process_time(), time.perf_counter()
        times_s = _repeat(lambda: run(batch), order.threads, started + order.seconds)
        elapsed_s, cpu_s = time.perf_counter() - started, time.process_time() - cpu_s
        p50_s, p99_s = np.percentile(times_s, [50, 99])
        return {
            "requests_per_s": len(times_s) / elapsed_s,
            "p50_ms": p50_s * 1e3,
            "p99_ms": p99_s * 1e3,
            "cpu_ms": cpu_s * 1e3 / len(times_s),
            "rows_per_run": float(order.rows),
        }

    def _prepare(self, signature: str) -> Run:
        if signature not in self._prepared:
            definition = self._signatures[signature]
            (fed,) = definition.inputs.values()
            options = CallableOptions(feed=[fed.name], fetch=[tensor.name for tensor in definition.outputs.values()])
            if not self._pool:
                options.run_options.inter_op_thread_pool = _IN_THE_CALLING_THREAD
            # The public method takes longer per call than the toy model does.
            self._prepared[signature] = self._session._make_callable_from_options(options)  # noqa: SLF001
        return self._prepared[signature]


def _repeat(call: Callable[[], object], threads: int, until: float) -> list[float]:
    """Call again and again in each thread until a point in time; return how long each call took, in seconds."""
    times_s: list[float] = []

    def repeat() -> None:
        begun = time.perf_counter()
        while begun < until:
            call()
            ended = time.perf_counter()
            times_s.append(ended - begun)
            begun = ended

    running = [threading.Thread(target=repeat) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return times_s


def main() -> None:
    """Take orders until there are no more."""
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(prog="python -m clients.benchmarks.bare", description=__doc__)
    parser.add_argument("model", type=Path, help="a SavedModel of clients.benchmarks.export")
    parser.add_argument("--intra-op-threads", type=int, default=cores)
    parser.add_argument("--inter-op-threads", type=int, default=cores)
    parser.add_argument("--pool", action="store_true", help="run ops on TensorFlow's pool, not in the calling thread")
    options = parser.parse_args()
    loop = Loop(options.model, options.intra_op_threads, options.inter_op_threads, pool=options.pool)
    print(loop.device, flush=True)
    for line in sys.stdin:
        print(json.dumps(loop.run(Order(**json.loads(line)))), flush=True)


if __name__ == "__main__":
    main()
