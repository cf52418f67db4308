"""A stream: requests go out and answers come back over one call, in the order of the requests.

A refused request is answered with an error, and the stream goes on.
"""

from queue import Queue

from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_SIGNATURES = ("predict", "no_such_signature", "embeddings")


def run(url: str) -> None:
    """Send three requests, one of them wrong."""
    answers: Queue[tuple[InferResult | None, InferenceServerException | None]] = Queue()
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    with InferenceServerClient(url) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for signature in _SIGNATURES:
            client.async_stream_infer("digits", [images], parameters={"signature": signature})
        for signature in _SIGNATURES:
            result, error = answers.get()
            outputs = [output.name for output in result.get_response().outputs] if result else []
            print(f"{signature}: {', '.join(outputs) or error}")
        client.stop_stream()


if __name__ == "__main__":
    run(read_url(__doc__))
