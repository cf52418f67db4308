"""A closed-loop load test: so many callers, each sending its next request when the one before is answered."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.utils import InferenceServerException

from clients.command_line.address import open_async_client
from clients.command_line.connection import text_of
from clients.command_line.description import Target

_CALL_TIMEOUT_S = 60.0
_TICK_S = 0.1


@dataclass(frozen=True)
class LoadResult:
    """What came of a load test.

    Attributes:
        concurrency: callers at a time.
        rows: of each request.
        seconds: how long it took.
        finished_s: when each answer came, in seconds since the start, [n] in the order of the answers.
        latencies_ms: how long each answer took, as the caller sees it, [n].
        errors: the texts of refusals and failures, with how often each came.
    """

    concurrency: int
    rows: int
    seconds: float
    finished_s: np.ndarray = field(repr=False)
    latencies_ms: np.ndarray = field(repr=False)
    errors: Counter[str]

    @property
    def per_second(self) -> float:
        """Answers a second."""
        return len(self.latencies_ms) / self.seconds

    def percentile_ms(self, percent: float) -> float:
        """Return the latency that so many percent of the answers stayed below; there is at least one answer."""
        return float(np.percentile(self.latencies_ms, percent))

    def by_second(self) -> np.ndarray:
        """Return the answers of each whole second, [int(seconds)]."""
        whole = int(self.seconds)
        return np.bincount(self.finished_s[self.finished_s < whole].astype(np.int64), minlength=whole)


async def run(
    url: str,
    target: Target,
    inputs: Sequence[InferInput],
    *,
    rows: int,
    concurrency: int,
    duration_s: float,
    tick: Callable[[float], None],
) -> LoadResult:
    """Send requests for ``duration_s`` seconds, wait for the last answers, and return what came of them.

    Args:
        url: the server.
        target: what is asked.
        inputs: the same for every request.
        rows: of each request; kept for the result.
        concurrency: callers at a time, on one connection.
        duration_s: after it no further request is sent.
        tick: called again and again with the seconds that have passed.

    Raises:
        InferenceServerException: the first request, which is sent before the time starts, was refused.
    """
    answers: list[tuple[float, float]] = []
    errors: Counter[str] = Counter()
    async with open_async_client(url) as client:

        async def ask() -> None:
            await client.infer(target.model, inputs, parameters=target.parameters, client_timeout=_CALL_TIMEOUT_S)

        async def call() -> None:
            while (sent := time.monotonic()) < started + duration_s:
                try:
                    await ask()
                except InferenceServerException as error:
                    errors[text_of(error)] += 1
                else:
                    now = time.monotonic()
                    answers.append((now - started, now - sent))

        await ask()
        started = time.monotonic()
        ticker = asyncio.create_task(_tick(started, tick))
        await asyncio.gather(*(call() for _ in range(concurrency)))
        seconds = time.monotonic() - started
        ticker.cancel()
    table = np.array(answers, np.float64).reshape(-1, 2)
    return LoadResult(concurrency, rows, seconds, table[:, 0], table[:, 1] * 1000, errors)


async def _tick(started: float, tick: Callable[[float], None]) -> None:
    while True:
        tick(time.monotonic() - started)
        await asyncio.sleep(_TICK_S)
