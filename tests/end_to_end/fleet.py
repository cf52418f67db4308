"""Several servers on loopback addresses, which can be ended, killed and started again."""

import signal
import socket

import tritonclient.grpc as triton

from clients.server_process import ServerProcess
from tests.end_to_end.conftest import START_S, STOP_S

DRAIN_DELAY_S = 1.0


def free_port():
    """Return a port that is free at all loopback addresses."""
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))  # noqa: S104 - nothing listens
        return taken.getsockname()[1]


class Replica:
    """One server of a fleet, which may be ended and started again at the same address."""

    def __init__(self, model, address, *options):
        host, _, port = address.rpartition(":")
        self.address = address
        self._model = model
        self._options = (
            "--grpc-address", host, "--grpc-port", port, "--allow-metrics", "false",
            "--drain-delay", str(DRAIN_DELAY_S), *options,
        )  # fmt: skip
        self._process = None

    def start(self):
        """Start the server and do not wait for it."""
        self._process = ServerProcess(self._model, *self._options)

    def wait_until_ready(self):
        self._process.wait_until_ready(START_S)

    def finish(self):
        """Tell the server to finish and return its exit code."""
        code = self._process.stop(STOP_S)
        self._close()
        return code

    def kill(self):
        """End the server at once, as a lack of memory does."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(STOP_S)
            self._close()

    def _close(self):
        self._process.__exit__(None, None, None)
        self._process = None

    @property
    def is_running(self):
        return self._process is not None

    def requests(self):
        """Return how many requests it has answered."""
        with triton.InferenceServerClient(self.address) as client:
            return client.get_inference_statistics().model_stats[0].inference_stats.success.count


class Fleet:
    """Servers at 127.0.0.2, 127.0.0.3 and so on, at one port; all ready inside the ``with`` block.

    No connection goes out from these addresses, so none takes the port of a server that is not there for a moment.
    """

    def __init__(self, model, *options, size=3):
        port = free_port()
        self.replicas = [Replica(model, f"127.0.0.{number}:{port}", *options) for number in range(2, 2 + size)]

    @property
    def target(self):
        """All addresses as one target of gRPC."""
        return "ipv4:" + ",".join(replica.address for replica in self.replicas)

    def __enter__(self):
        self.make_whole()
        return self

    def make_whole(self):
        """Start the servers that are not there, and wait until all are ready."""
        missing = [replica for replica in self.replicas if not replica.is_running]
        for replica in missing:
            replica.start()
        for replica in missing:
            replica.wait_until_ready()

    def __exit__(self, *error):
        for replica in self.replicas:
            replica.kill()
