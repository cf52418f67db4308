"""Keeps all workers of a model busy for as long as a test likes."""

import contextlib
import os
import threading
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call
from tests.end_to_end.readings import readings, wait_until

WORKERS = 2


@contextlib.contextmanager
def held(server, directory):
    """Let every worker of the model ``faults`` wait inside a run until the block ends."""
    pipe = Path(directory) / "pipe"
    os.mkfifo(pipe)

    def wait_inside():
        # What comes of it does not matter: TensorFlow may or may not read pipes.
        with triton.InferenceServerClient(server.address) as client, contextlib.suppress(InferenceServerException):
            call(client, "faults", {"path": np.array(str(pipe).encode(), object)}, "hold")

    threads = [threading.Thread(target=wait_inside) for _ in range(WORKERS)]
    for thread in threads:
        thread.start()
    try:
        wait_until(lambda: readings(server, "faults")["signet_running_requests", "hold"] == WORKERS)
        yield
    finally:
        pipe.open("wb").close()  # lets all go who wait to open it for reading
        for thread in threads:
            thread.join()
        pipe.unlink()
