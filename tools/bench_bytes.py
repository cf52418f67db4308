"""Measure how long BYTES tensors take to read and write, beside the stock client's own functions.

    python -m tools.bench_bytes [--rounds N]

Prints nanoseconds of CPU time per element, the median of the rounds, and how many times faster we are than the client
in the same round. All functions take turns within a round, so that whatever else the machine does hits all of them.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from tritonclient.utils import deserialize_bytes_tensor, serialize_byte_tensor

from service import raw_tensor
from service.datatypes import BYTES

_SEED = 7


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    table = Table("elements", "bytes each", "step", "ours, ns", "client, ns", "times faster")
    for title, lengths in _cases().items():
        _add_rows(table, title, _elements(lengths), rounds)
    Console().print(table)


def _cases() -> dict[str, list[int]]:
    random = np.random.default_rng(_SEED)
    return {
        "900": [900] * 10_000,
        "5": [5] * 200_000,
        "600 to 1200": random.integers(600, 1201, 10_000).tolist(),
        "0 to 10": random.integers(0, 11, 200_000).tolist(),
    }


def _elements(lengths: list[int]) -> np.ndarray:
    array = np.empty(len(lengths), BYTES.dtype)
    array[:] = [index.to_bytes(4, "little")[:1] * length for index, length in enumerate(lengths)]
    return array


def _add_rows(table: Table, title: str, array: np.ndarray, rounds: int) -> None:
    raw = raw_tensor.encode(array)
    steps: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "read": (lambda: raw_tensor.decode_bytes(array.shape, raw), lambda: deserialize_bytes_tensor(raw)),
        # What a client puts into its message is the item, not the array around it.
        "write": (lambda: raw_tensor.encode(array), lambda: serialize_byte_tensor(array).item()),
    }
    for step, functions in steps.items():
        times = [[_cpu_ns(function) / array.size for function in functions] for _ in range(rounds)]
        ours, client = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(theirs / mine for mine, theirs in times)
        table.add_row(f"{array.size:,}", title, step, f"{ours:.0f}", f"{client:.0f}", f"{ratio:.1f}")


def _cpu_ns(function: Callable[[], object]) -> int:
    begun = time.thread_time_ns()
    function()
    return time.thread_time_ns() - begun


if __name__ == "__main__":
    main()
