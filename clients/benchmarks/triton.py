"""Real Triton with its Python backend as a process of its own, for comparison on the same SavedModel."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

from clients.benchmarks.models import Model, describe

_POLL_S: Final = 0.1
_BACKEND: Final = Path(__file__).with_name("triton_backend.py")
_LOG_LINES_SHOWN: Final = 15


class TritonError(Exception):
    """Triton is not there or did not start; the text says what is missing, or carries the last lines of its log."""


class TritonProcess:
    """Triton on a loopback port: started at construction, gone after the ``with`` block.

    Attributes:
        address: host and port of gRPC.
        pid: its process; the Python backend runs in a child of it.
    """

    def __init__(self, setup: Path, repository: Path) -> None:
        """Start it.

        Args:
            setup: a directory with ``triton``, a virtual environment that holds nvidia-pytriton, TensorFlow and
                NumPy 1, and ``backends/python``, the Python backend with its stub for that environment.
            repository: a directory made by ``write_repository``; the log goes there, too.

        Raises:
            TritonError: the directory holds no such environment.
        """
        site = next((setup / "triton/lib").glob("python3.*/site-packages"), None)
        if site is None or not (setup / "backends/python").is_dir():
            raise TritonError(
                f"{setup} holds no Triton: triton/lib/python3.*/site-packages or backends/python is missing"
            )
        grpc, http, metrics = _free_ports(3)
        self.address = f"127.0.0.1:{grpc}"
        self._log = repository.parent / f"{repository.name}.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                _command(setup, site, repository, grpc, http, metrics),
                env=_environment(setup, site),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return when it serves its model.

        Raises:
            TritonError: it ended, or was not ready after ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        with InferenceServerClient(self.address) as client:
            while not _is_ready(client):
                if self._process.poll() is not None or time.monotonic() > deadline:
                    lines = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES_SHOWN:]
                    raise TritonError("Triton did not start. The last lines of its log:\n" + "\n".join(lines))
                time.sleep(_POLL_S)


def write_repository(directory: Path, model: Model, saved_model: Path, max_batch_size: int) -> None:
    """Write a model repository in which the Python backend serves the SavedModel with dynamic batching.

    Triton knows one set of inputs per model, so that all inputs of all signatures are optional. There is one instance:
    each further one would be another process with another copy of the weights.
    """
    version = directory / model.name / "1"
    version.mkdir(parents=True)
    shutil.copy(_BACKEND, version / "model.py")
    signatures = model.signatures.values()
    inputs = {signature.input.name: signature.input for signature in signatures}
    outputs = {signature.output.name: signature.output for signature in signatures}
    fields = [
        f'name: "{model.name}" backend: "python" max_batch_size: {max_batch_size} dynamic_batching {{ }}',
        "instance_group { count: 1 kind: KIND_CPU }",
        f'parameters {{ key: "saved_model" value {{ string_value: "{saved_model.resolve()}" }} }}',
        *(f"input {{ {describe(tensor)} optional: {str(len(inputs) > 1).lower()} }}" for tensor in inputs.values()),
        *(f"output {{ {describe(tensor)} }}" for tensor in outputs.values()),
    ]
    (directory / model.name / "config.pbtxt").write_text("\n".join(fields) + "\n")


def _command(setup: Path, site: Path, repository: Path, grpc: int, http: int, metrics: int) -> list[str]:
    server = site / "pytriton/tritonserver"
    return [
        *(str(server / "bin/tritonserver"), "--model-repository", str(repository)),
        *("--backend-directory", str(setup / "backends"), "--cache-directory", str(server / "caches")),
        *("--grpc-address", "127.0.0.1", "--grpc-port", str(grpc)),
        *("--http-address", "127.0.0.1", "--http-port", str(http), "--metrics-port", str(metrics)),
        *("--allow-gpu-metrics", "false", "--allow-cpu-metrics", "false"),
    ]


def _environment(setup: Path, site: Path) -> dict[str, str]:
    """Return the environment in which Triton's libraries and its embedded Python find one another."""
    home = _base_prefix(setup / "triton/pyvenv.cfg")
    return {
        **os.environ,
        "LD_LIBRARY_PATH": f"{site / 'nvidia_pytriton.libs'}:{home / 'lib'}",
        "PYTHONHOME": str(home),
        "SIGNET_BENCHMARK_PACKAGES": str(site),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _base_prefix(configuration: Path) -> Path:
    """Return where the Python of a virtual environment is installed; ``home`` names its folder of programs."""
    for line in configuration.read_text().splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home":
            return Path(value.strip()).parent
    raise TritonError(f"{configuration} does not say where its Python is installed")


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now; Triton cannot choose its ports itself."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(bound.getsockname()[1]) for bound in sockets]
    for bound in sockets:
        bound.close()
    return ports


def _is_ready(client: InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready(client_timeout=1.0))
    except InferenceServerException:  # it does not listen yet, or is busy with loading
        return False
