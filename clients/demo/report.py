"""The table at the end: one line for each signature."""

import time
from dataclasses import dataclass
from typing import Final

from rich.table import Table
from tritonclient.grpc import InferenceServerClient

from clients.demo.quality import Quality

_COUNTERS_TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.05
# So that the whole table is narrow enough to be read on a page.
_TENSORS_WIDTH: Final = 32
_ACCURACY_WIDTH: Final = 12


@dataclass(frozen=True)
class Line:
    """What is known of one signature when all answers are in.

    Attributes:
        signature: its name.
        tensors: its inputs and outputs in short, as the server describes them.
        requests: how many were sent.
        faults: how many of them were not answered right.
        batches: how often the server ran the signature.
        rows: how many rows it ran in these batches; a run without inputs counts as one.
        quality: what the answers are worth, if that can be measured.
    """

    signature: str
    tensors: str
    requests: int
    faults: int
    batches: int
    rows: int
    quality: Quality | None

    @property
    def good(self) -> bool:
        """Whether every answer was right and worth something."""
        return self.requests > 0 and self.faults == 0 and (self.quality is None or self.quality.good)

    def cells(self) -> tuple[str, ...]:
        """The line as text, column by column."""
        return (
            self.signature,
            self.tensors,
            f"{self.requests:,}",
            f"{self.batches:,}",
            f"{self.rows / self.batches:.2f}" if self.batches else "-",
            "all right" if self.faults == 0 else f"{self.faults:,} wrong",
            "-" if self.quality is None else str(self.quality),
        )


def to_table(lines: list[Line]) -> Table:
    """Return the lines as a table for the terminal."""
    table = Table(title="Every signature of one loaded model")
    table.add_column("signature", overflow="fold")
    table.add_column("inputs -> outputs", overflow="fold", max_width=_TENSORS_WIDTH)
    for heading in ("requests", "batches", "mean\nbatch"):
        table.add_column(heading, justify="right")
    table.add_column("result")
    table.add_column("accuracy", max_width=_ACCURACY_WIDTH)
    for line in lines:
        table.add_row(*line.cells())
    return table


def describe_tensors(client: InferenceServerClient, model: str, signature: str) -> str:
    """Ask the server what goes into a signature and what comes out, such as ``words BYTES[-1] -> ...``."""
    metadata = client.get_model_metadata(f"{model}:{signature}")
    inputs, outputs = (
        ", ".join(f"{tensor.name} {tensor.datatype}[{','.join(map(str, tensor.shape))}]" for tensor in tensors)
        for tensors in (metadata.inputs, metadata.outputs)
    )
    return f"{inputs or 'nothing'} -> {outputs}"


def read_counters(client: InferenceServerClient, model: str, signature: str, requests: int) -> tuple[int, int]:
    """Return how many batches and rows the server ran for a signature once it has counted ``requests`` requests.

    Counters may lag behind the answers for a moment, so this asks again, within bounds; what it returns then are the
    counters as they are.
    """
    deadline = time.monotonic() + _COUNTERS_TIMEOUT_S
    while True:
        statistics = client.get_inference_statistics(f"{model}:{signature}").model_stats[0]
        if statistics.inference_stats.success.count >= requests or time.monotonic() > deadline:
            return statistics.execution_count, statistics.inference_count
        time.sleep(_POLL_S)
