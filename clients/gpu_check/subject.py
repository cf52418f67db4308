"""The server that is checked: what stock clients, its log, its metrics and the driver tell of it."""

import random
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import np_to_triton_dtype

from clients.gpu_check.gpus import used_mib
from clients.gpu_check.plan import ROWS, Sizes
from clients.server_process import ServerProcess

CALL_TIMEOUT_S: Final = 60.0
_LOG_TIMEOUT_S: Final = 10.0
_POLL_S: Final = 0.05
_THREADS: Final = 8
_HELD: Final = ("READY", "UNLOADING")
"""States of the index in which a model takes memory."""
_DEVICE_RUNS: Final = "signet_device_runs_total"
_COMPILATIONS: Final = "signet_xla_compilations_total"

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Subject:
    """A running server and what it is compared with.

    Attributes:
        process: the server.
        client: a stock client of it.
        is_gpu: whether it was told to use GPUs.
        sizes: of its models.
        answers: inputs by name, and what plain TensorFlow answers as SIGNATURE.OUTPUT.
        idle_mib: memory in use on each GPU before the server started.
    """

    process: ServerProcess
    client: InferenceServerClient
    is_gpu: bool
    sizes: Sizes
    answers: Arrays
    idle_mib: Mapping[int, float]

    def load(self, model: str) -> None:
        """Load a model; raises InferenceServerException where that fails."""
        self.client.load_model(model, client_timeout=10 * CALL_TIMEOUT_S)

    def unload(self, model: str) -> None:
        """Unload a model and return when its memory is free."""
        self.client.unload_model(model, client_timeout=CALL_TIMEOUT_S)
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while self._is_held(model) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _is_held(self, model: str) -> bool:
        index = self.client.get_model_repository_index(client_timeout=CALL_TIMEOUT_S)
        return any(each.name == model and each.state in _HELD for each in index.models)

    def infer(self, model: str, signature: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """Return the outputs of one request."""
        return infer(self.client, model, signature, inputs)

    def infer_sizes(self, model: str, count: int) -> list[tuple[int, np.ndarray]]:
        """Ask a model's scores for batches of random sizes, several at a time.

        Returns:
            For each of ``count`` requests its rows, which are the first of ``answers``, and the scores.
        """
        chosen = random.Random(count)
        sizes = [chosen.randint(1, ROWS) for _ in range(count)]

        def ask(share: Sequence[int]) -> list[tuple[int, np.ndarray]]:
            with InferenceServerClient(self.process.address) as client:
                return [(rows, infer(client, model, "scores", {"x": self.answers["x"][:rows]})["y"]) for rows in share]

        with ThreadPoolExecutor(_THREADS) as pool:
            shares = pool.map(ask, [sizes[start::_THREADS] for start in range(_THREADS)])
            return [answer for share in shares for answer in share]

    def device_runs(self, model: str) -> dict[str, int]:
        """Return how many runs of a model each device has begun."""
        return self._counts(_DEVICE_RUNS, model, "device")

    def compilations(self, model: str) -> dict[str, int]:
        """Return how often XLA compiled each signature of a model."""
        return self._counts(_COMPILATIONS, model, "signature")

    def _counts(self, name: str, model: str, by: str) -> dict[str, int]:
        return {labels[by]: int(value) for labels, value in self.process.metric(name) if labels["model"] == model}

    def log_lines(self, *parts: str) -> list[str]:
        """Return the lines of the log that hold all of these texts, without what a line begins with.

        The log comes after the answers, so this waits for the first such line, within bounds.
        """
        deadline = time.monotonic() + _LOG_TIMEOUT_S
        while True:
            found = [line for line in self.process.log_lines() if all(part in line for part in parts)]
            if found or time.monotonic() > deadline:
                return [line.partition("] ")[2] or line for line in found]
            time.sleep(_POLL_S)

    def memory_mib(self) -> dict[str, float]:
        """Return the memory in use by place: of each chosen GPU what came since the start, or the server's main memory.

        Empty where nothing tells.
        """
        if not self.is_gpu:
            return {"main memory": self.process.resident_mib()}
        chosen, used = self.device_runs("network"), used_mib()
        grown = {f"GPU:{number}": used[number] - idle for number, idle in self.idle_mib.items() if number in used}
        return {device: mib for device, mib in grown.items() if device in chosen}


def infer(client: InferenceServerClient, model: str, signature: str, inputs: Arrays) -> dict[str, np.ndarray]:
    """Return the outputs of one request of a client."""
    result = client.infer(
        model,
        [to_input(name, array) for name, array in inputs.items()],
        parameters={"signature": signature},
        client_timeout=CALL_TIMEOUT_S,
    )
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def to_input(name: str, array: np.ndarray) -> Any:
    """Return the client's object for an array; byte strings become BYTES."""
    sent = array.astype(object) if array.dtype.kind == "S" else array
    return InferInput(name, list(sent.shape), np_to_triton_dtype(sent.dtype)).set_data_from_numpy(sent)
