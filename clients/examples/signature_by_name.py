"""Two ways to name a signature: a parameter of the request, or the model name ``MODEL:SIGNATURE``.

The second is for programs that can only name a model. Both share the weights, the queue and the counters.
"""

from tritonclient.grpc import InferenceServerClient, InferInput

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO


def run(url: str) -> None:
    """Ask the same in both ways."""
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    with InferenceServerClient(url) as client:
        by_parameter = client.infer("digits", [images], parameters={"signature": "predict"})
        by_name = client.infer("digits:predict", [images])
    for result in (by_parameter, by_name):
        answer = result.get_response()
        print(f"{answer.model_name} answered {result.as_numpy('class')[0]}")
        print(f"  by signature {answer.parameters['signature'].string_param}")


if __name__ == "__main__":
    run(read_url(__doc__))
