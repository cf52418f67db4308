"""Two workers overlap: two runs are in progress at a time, and on a GPU that gets more through."""

import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import shared_memory

from clients.gpu_check.finding import NO_GPU, Finding
from clients.gpu_check.plan import BUSY_ROWS
from clients.gpu_check.subject import CALL_TIMEOUT_S, Subject, infer

_CALLERS: Final = 6
_ROUNDS: Final = 3
_SECONDS: Final = 2.0
_GAIN: Final = 1.05


def two_runs_meet(subject: Subject) -> Finding:
    """Ask two signatures of which neither ends without the other."""
    subject.load("meeting")

    def ask(signature: str, value: float) -> float:
        with InferenceServerClient(subject.process.address) as client:
            return float(infer(client, "meeting", signature, {"x": np.array(value, np.float32)})["y"])

    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(ask, ("left", "right"), (1.0, 2.0)))
    return Finding(f"both ended, with {answers}", ok=answers == [2.0, 1.0])


def two_workers_get_more_through(subject: Subject) -> Finding:
    """Measure one worker and two in turns, with tensors in shared memory so that the client costs little."""
    if not subject.is_gpu:
        return NO_GPU
    for model in ("one_worker", "two_workers"):
        subject.load(model)
        _throughput(subject, model)
    ratios = []
    for _ in range(_ROUNDS):
        one, two = (_throughput(subject, model) for model in ("one_worker", "two_workers"))
        ratios.append(two / one)
    seen = f"{statistics.median(ratios):.2f} times ({min(ratios):.2f}..{max(ratios):.2f}), at last {two:.0f} requests/s"
    return Finding(f"{seen} of {BUSY_ROWS} rows", ok=statistics.median(ratios) >= _GAIN)


def _throughput(subject: Subject, model: str) -> float:
    """Return the answers per second to callers that ask again at once."""
    until = time.monotonic() + _SECONDS

    def call(_: int) -> int:
        count = 0
        with InferenceServerClient(subject.process.address) as client, _busy_request(client, subject) as (x, y):
            while time.monotonic() < until:
                client.infer(model, [x], outputs=[y], parameters={"signature": "busy"}, client_timeout=CALL_TIMEOUT_S)
                count += 1
        return count

    with ThreadPoolExecutor(_CALLERS) as pool:
        return sum(pool.map(call, range(_CALLERS))) / _SECONDS


@contextmanager
def _busy_request(client: InferenceServerClient, subject: Subject) -> Iterator[tuple[InferInput, InferRequestedOutput]]:
    """Lay the input and room for the output into system shared memory, which goes after the block."""
    name = f"gpu_check_{uuid4().hex}"
    rows = np.resize(subject.answers["x"], (BUSY_ROWS, subject.sizes.width))
    memory = shared_memory.create_shared_memory_region(name, f"/{name}", 2 * rows.nbytes)
    try:
        shared_memory.set_shared_memory_region(memory, [rows])
        client.register_system_shared_memory(name, f"/{name}", 2 * rows.nbytes)
        x = InferInput("x", list(rows.shape), "FP32")
        x.set_shared_memory(name, rows.nbytes)
        y = InferRequestedOutput("y")
        y.set_shared_memory(name, rows.nbytes, offset=rows.nbytes)
        yield x, y
        client.unregister_system_shared_memory(name)
    finally:
        shared_memory.destroy_shared_memory_region(memory)
