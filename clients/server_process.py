"""The server as a process of its own, for programs that bring their server with them."""

import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import InferenceServerClient
from tritonclient.utils import InferenceServerException

_PROBES_ANNOUNCEMENT: Final = re.compile(r"probes at (127\.0\.0\.1:\d+)")
_HTTP_ANNOUNCEMENT: Final = re.compile(r"HTTP at (127\.0\.0\.1:\d+)")
_ANNOUNCEMENT: Final = re.compile(r"gRPC at (127(?:\.\d+){3}:\d+)")
_LOG_LINES_KEPT: Final = 200
_LOG_LINES_SHOWN: Final = 15
_POLL_S: Final = 0.05
_CALL_TIMEOUT_S: Final = 1.0
_METRICS_TIMEOUT_S: Final = 30.0


class ServerProcessError(Exception):
    """The server did not start or did not stay; the text carries the last lines of its log."""


class ServerProcess:
    """A server on a loopback port of the kernel's choosing: started at construction, gone after the ``with`` block.

    One thread reads the log to its end, so that the server never waits for a full pipe. Everything else is for the
    thread that made it.

    Attributes:
        model: what it serves.
        address: host and port of gRPC, known after ``wait_until_ready``.
        http_address: of the port for probes and metrics, likewise; "" where that is switched off.
        probes_address: of the port of ``--health-address``, likewise.
    """

    address: str
    http_address = ""
    probes_address = ""

    def __init__(self, model: Path, *options: str) -> None:
        """Start the server.

        Args:
            model: what to serve.
            options: further options of ``signet serve``.
        """
        command = [sys.executable, "-m", "service", "serve", str(model), "--grpc-port", "0", "--metrics-port", "0"]
        command += options
        self.model: Final = model
        self._log: deque[str] = deque(maxlen=_LOG_LINES_KEPT)
        self._announced: Future[str] = Future()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self._reader = threading.Thread(target=self._read_log, name="server-log")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._reader.join()
        self._process.communicate()  # closes the pipe, which is read to its end, and waits

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def __repr__(self) -> str:
        return f"ServerProcess(pid={self._process.pid}, exit_code={self._process.poll()})"

    def wait_until_ready(self, timeout_s: float) -> None:
        """Return when the server answers that it is ready.

        Raises:
            ServerProcessError: it ended, or was not ready after ``timeout_s`` seconds.
        """
        deadline = time.monotonic() + timeout_s
        self.address = self._wait_for_address(timeout_s)
        try:
            with InferenceServerClient(self.address) as client:
                while not _is_ready(client):
                    if self._process.poll() is not None or time.monotonic() > deadline:
                        raise self.failure(f"The server was not ready within {timeout_s:g} s")
                    time.sleep(_POLL_S)
        except InferenceServerException as error:
            raise self.failure(f"The server does not say whether it is ready: {error}") from error

    def stop(self, timeout_s: float) -> int:
        """Ask the server to finish (SIGTERM) and return its exit code.

        Raises:
            ServerProcessError: it was still there after ``timeout_s`` seconds.
        """
        self.send_signal(signal.SIGTERM)
        return self.wait(timeout_s)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal and do not wait for what it does."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> int:
        """Return the exit code when the server has ended by itself.

        Raises:
            ServerProcessError: it was still there after ``timeout_s`` seconds.
        """
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise self.failure(f"The server did not end within {timeout_s:g} s") from None

    def resident_mib(self) -> float:
        """Return how much memory the server holds now, in MiB.

        Raises:
            ServerProcessError: it has ended.
        """
        if self._process.poll() is not None:
            raise self.failure("The server ended before it was asked to")
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def metric(self, name: str) -> list[tuple[dict[str, str], float]]:
        """Return the samples of a metric, each with its labels; none where there is no such metric.

        Raises:
            OSError: the server does not answer.
        """
        with urlopen(f"http://{self.http_address}/metrics", timeout=_METRICS_TIMEOUT_S) as answer:
            text = answer.read().decode()
        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        return [(sample.labels, sample.value) for sample in samples if sample.name == name]

    def failure(self, what: str) -> ServerProcessError:
        """Return an error that says what went wrong, whether the server still runs, and the end of its log."""
        exit_code = self._process.poll()
        state = "it still runs" if exit_code is None else f"it ended with exit code {exit_code}"
        return ServerProcessError(f"{what}; {state}. The last lines of its log:\n{self.end_of_log()}")

    def log_lines(self) -> list[str]:
        """Return the last lines that the server wrote so far, oldest first."""
        return list(self._log)

    def end_of_log(self) -> str:
        """Return the last lines that the server wrote, for a reader who has to find out what went wrong."""
        if self._process.poll() is not None:
            self._reader.join()
        return "\n".join(f"  {line}" for line in list(self._log)[-_LOG_LINES_SHOWN:]) or "  (nothing)"

    def _wait_for_address(self, timeout_s: float) -> str:
        try:
            return self._announced.result(timeout_s)
        except TimeoutError:
            raise self.failure(f"The server named no port within {timeout_s:g} s") from None
        except EOFError:
            self._process.wait()
            raise self.failure("The server did not start") from None

    def _read_log(self) -> None:
        for line in self._process.stdout or ():
            self._log.append(line.rstrip())
            if http := _HTTP_ANNOUNCEMENT.search(line):  # comes before that of gRPC
                self.http_address = http[1]
            if probes := _PROBES_ANNOUNCEMENT.search(line):  # likewise
                self.probes_address = probes[1]
            announcement = _ANNOUNCEMENT.search(line)
            if announcement and not self._announced.done():
                self._announced.set_result(announcement[1])
        if not self._announced.done():
            self._announced.set_exception(EOFError())


def _is_ready(client: InferenceServerClient) -> bool:
    try:
        return bool(client.is_server_ready(client_timeout=_CALL_TIMEOUT_S))
    except InferenceServerException as error:
        if error.status() in ("StatusCode.UNAVAILABLE", "StatusCode.DEADLINE_EXCEEDED"):  # it is busy with starting
            return False
        raise
