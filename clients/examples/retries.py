"""Let gRPC ask again: UNAVAILABLE from this server means that the request was not run.

It is what a full queue and a stopping server say, so asking again is right, after a while and not for ever. Errors of
the request itself (INVALID_ARGUMENT, NOT_FOUND) come back the same each time. A connection that breaks is UNAVAILABLE,
too, and nobody knows how far its requests had come: keep signatures that write out of this.
"""

import json

from tritonclient.grpc import InferenceServerClient, InferInput

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_POLICY = {
    "methodConfig": [
        {
            "name": [{"service": "inference.GRPCInferenceService"}],
            "retryPolicy": {
                "maxAttempts": 4,
                "initialBackoff": "0.1s",
                "maxBackoff": "1s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}


def run(url: str) -> None:
    """Ask with a policy for the whole channel, and a deadline that all attempts share."""
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    channel_args = [("grpc.enable_retries", 1), ("grpc.service_config", json.dumps(_POLICY))]
    with InferenceServerClient(url, channel_args=channel_args) as client:
        result = client.infer("digits", [images], parameters={"signature": "predict"}, client_timeout=10.0)
    print(f"a {result.as_numpy('class')[0]}")


if __name__ == "__main__":
    run(read_url(__doc__))
