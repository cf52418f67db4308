"""The loop of ``clients.benchmarks.bare`` in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Self, TextIO, cast

from clients.benchmarks.figures import Measurement
from clients.benchmarks.scenarios import Load
from clients.benchmarks.variants import OFF, Computing

LABEL: Final = "bare loop"
_ALLOCATOR: Final = {"MALLOC_TRIM_THRESHOLD_": str(256 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}
"""As the server has it; without it a loop over batches costs more than the server does."""


class BareProcessError(Exception):
    """The loop ended before it was asked to; its standard error says why."""


class BareProcess:
    """A contender without a server: started at construction, used in the ``with`` block, gone after it.

    Attributes:
        label: see ``Contender``.
        computing: likewise, known in the block.
    """

    label: Final = LABEL
    computing: Computing

    def __init__(self, model: Path, options: Sequence[str] = ()) -> None:
        """Start it on a SavedModel; ``options`` are those of ``clients.benchmarks.bare``."""
        environment = {
            **os.environ,
            **_ALLOCATOR,
            "MALLOC_ARENA_MAX": str(-(-_cores() // 4)),  # likewise
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "OMP_NUM_THREADS": str(_cores()),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "clients.benchmarks.bare", str(model), *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self._orders = cast("TextIO", self._process.stdin)
        self._answers = cast("TextIO", self._process.stdout)

    def __enter__(self) -> Self:
        """Wait until it has loaded the model and says on which device.

        Raises:
            BareProcessError: the process has ended.
        """
        self.computing = Computing(self._read().strip(), OFF, OFF)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def measure(self, load: Load, concurrency: int, seconds: float) -> Measurement:
        """Run the load's first signature in as many threads as callers would wait, at most one per core.

        Raises:
            BareProcessError: the process has ended.
        """
        threads = min(concurrency, _cores())
        order = {"signature": load.signatures[0], "rows": load.rows, "threads": threads, "seconds": seconds}
        try:
            self._orders.write(json.dumps(order) + "\n")
            self._orders.flush()
        except BrokenPipeError:
            raise BareProcessError("the bare loop has ended") from None
        return Measurement(**json.loads(self._read()))

    def _read(self) -> str:
        line = self._answers.readline()
        if not line:
            raise BareProcessError("the bare loop has ended")
        return line


def _cores() -> int:
    return len(os.sched_getaffinity(0))
