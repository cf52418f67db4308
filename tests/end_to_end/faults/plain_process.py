"""The server as a process whose log goes where a test says."""

import subprocess
import sys
from contextlib import contextmanager

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.readings import wait_until


@contextmanager
def server_that_logs_to(stream, path, model, *options):
    """Start a server at a Unix socket, since its log cannot tell a port; return its process and a client."""
    command = [sys.executable, "-m", "service", "serve", *model, "--grpc-address", f"unix:{path}"]
    command += ["--metrics-port", "0", "--log-verbose", "1", *options]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream) as process:
        try:
            with triton.InferenceServerClient(f"unix:{path}") as client:
                wait_until(lambda: process.poll() is not None or is_ready(client))
                yield process, client
        finally:
            process.kill()


def is_ready(client):
    try:
        return client.is_server_ready(client_timeout=1)
    except InferenceServerException:
        return False
