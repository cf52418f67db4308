"""Many requests on their way from one thread: ``async_infer`` calls back when each is answered, in any order.

What waits at the server at the same moment is joined into one run of the model.
"""

from queue import Queue

from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_REQUESTS = 20


def run(url: str) -> None:
    """Send requests without waiting, then collect the answers."""
    answers: Queue[tuple[InferResult | None, InferenceServerException | None]] = Queue()

    def done(result: InferResult | None, error: InferenceServerException | None) -> None:
        answers.put((result, error))  # in a thread of gRPC: hand it on, and do nothing long

    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    with InferenceServerClient(url) as client:
        for number in range(_REQUESTS):
            parameters = {"signature": "predict"}
            client.async_infer("digits", [images], done, request_id=str(number), parameters=parameters)
        for _ in range(_REQUESTS):
            result, error = answers.get()
            if result is None:
                raise error or RuntimeError("neither an answer nor an error came")
            print(f"request {result.get_response().id}: {result.as_numpy('class')[0]}")


if __name__ == "__main__":
    run(read_url(__doc__))
