"""The first call: one request, one answer. The parameter ``signature`` is all that is new."""

from tritonclient.grpc import InferenceServerClient, InferInput

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO


def run(url: str) -> None:
    """Ask which digit a picture shows."""
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    with InferenceServerClient(url) as client:
        result = client.infer("digits", [images], parameters={"signature": "predict"})
    print(f"a {result.as_numpy('class')[0]}, with probability {result.as_numpy('score')[0]:.2f}")


if __name__ == "__main__":
    run(read_url(__doc__))
