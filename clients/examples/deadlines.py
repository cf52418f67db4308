"""How long to wait. There are two limits, and either takes the request out of the queue at the time asked.

``client_timeout`` is gRPC's deadline, in seconds, for the whole call: DEADLINE_EXCEEDED. ``timeout`` is the protocol's,
in microseconds, for the wait in the server's queue alone: UNAVAILABLE. What nobody waits for any more is never run.
"""

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput
from tritonclient.utils import InferenceServerException

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO


def run(url: str) -> None:
    """Ask with time enough, then for much more in a millisecond."""
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    many = np.repeat(ZERO, 20_000, axis=0)
    too_many = InferInput("images", many.shape, "FP32").set_data_from_numpy(many)
    parameters = {"signature": "predict"}
    with InferenceServerClient(url) as client:
        result = client.infer("digits", [images], parameters=parameters, client_timeout=30.0, timeout=10_000_000)
        print(f"in time: {result.as_numpy('class')[0]}")
        try:
            client.infer("digits", [too_many], parameters=parameters, client_timeout=0.001)
        except InferenceServerException as error:
            print(f"too late: {error.status()}")


if __name__ == "__main__":
    run(read_url(__doc__))
