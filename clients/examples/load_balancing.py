"""Calls to several servers by turns: gRPC does it in the client, without anything between.

A target may list addresses (``ipv4:10.0.0.1:8001,10.0.0.2:8001``), or be a name that resolves to several
(``dns:///signet:8001``, a headless service of Kubernetes). gRPC takes the first that answers unless told to take turns.
"""

from tritonclient.grpc import InferenceServerClient, InferInput

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_CALLS = 10


def run(url: str) -> None:
    """Send calls over all addresses of the target."""
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    channel_args = [("grpc.lb_policy_name", "round_robin"), ("grpc.default_authority", "signet")]
    with InferenceServerClient(url, channel_args=channel_args) as client:
        classes = [_ask(client, images) for _ in range(_CALLS)]
    print(f"{len(classes)} answers: {classes}")


def _ask(client: InferenceServerClient, images: InferInput) -> int:
    result = client.infer("digits", [images], parameters={"signature": "predict"}, client_timeout=10.0)
    return int(result.as_numpy("class")[0])


if __name__ == "__main__":
    run(read_url(__doc__))
