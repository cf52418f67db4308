"""Steady traffic over all signatures of a model while its versions are swapped, and what each request then took."""

import asyncio
import itertools
import time
from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc.aio as triton

from tests.end_to_end.calls import tensors

SIGNATURES = tuple(f"s{index}" for index in range(8))
SLOW = SIGNATURES[6:]
"""Those that take 20 ms; every tenth request is for one of them."""


@dataclass
class Record:
    """What became of the requests.

    Attributes:
        answers: of each, when it was due, how long it took from then on, in seconds, and whether it was a quick one.
        faults: what was wrong with others.
        swaps: when each swap began and ended.
    """

    answers: list[tuple[float, float, bool]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    swaps: list[tuple[float, float]] = field(default_factory=list)

    def latencies_ms(self, *, swapping: bool) -> np.ndarray:
        """Return those of quick requests that were due while a swap ran, or while none did."""
        chosen = [
            took * 1000
            for due, took, quick in self.answers
            if quick and swapping == any(begun <= due <= ended for begun, ended in self.swaps)
        ]
        return np.array(chosen)


class Traffic:
    """Requests at a fixed rate, whatever becomes of those before; each names the next signature."""

    def __init__(self, client: triton.InferenceServerClient, model: str, rate: float) -> None:
        self.record = Record()
        self._client = client
        self._model = model
        self._rate = rate
        self._stopping = False

    async def run(self) -> None:
        """Send until told to stop, then wait for the last answers."""
        async with asyncio.TaskGroup() as sent:
            began = time.perf_counter()
            for count in itertools.count():
                due = began + count / self._rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                if self._stopping:
                    return
                sent.create_task(self._send(count, due))

    def stop(self) -> None:
        """Let ``run`` send no more."""
        self._stopping = True

    async def _send(self, count: int, due: float) -> None:
        slow = count % 10 == 0
        signature = SLOW[count // 10 % 2] if slow else SIGNATURES[count % 6]
        rows = np.arange(1 + count % 3, dtype=np.int32)
        try:
            result = await self._client.infer(
                self._model, tensors({"row": rows}), parameters={"signature": signature}, client_timeout=30
            )
        except Exception as error:  # noqa: BLE001 - every failure counts
            self.record.faults.append(f"{signature}: {error!r}")
            return
        self.record.answers.append((due, time.perf_counter() - due, not slow))
        self._check(result, rows)

    def _check(self, result: triton.InferResult, rows: np.ndarray) -> None:
        """An answer comes from one version: the number in its data is odd for odd versions."""
        version = int(result.get_response().model_version)
        expected = np.full(rows.shape, 2 - version % 2, np.float32)
        for name in ("of_weights", "of_scalar"):
            if not np.array_equal(result.as_numpy(name), expected):
                self.record.faults.append(f"version {version}, {name}: {result.as_numpy(name)}")
