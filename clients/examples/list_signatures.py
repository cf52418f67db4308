"""What signatures are there? The model's configuration lists them, in a parameter that every stock client can read."""

import json

from tritonclient.grpc import InferenceServerClient

from clients.examples.arguments import read_url


def run(url: str) -> None:
    """Print each signature with the names of its inputs and outputs."""
    with InferenceServerClient(url) as client:
        config = client.get_model_config("digits").config
    for name, signature in json.loads(config.parameters["signatures"].string_value).items():
        inputs, outputs = (", ".join(tensor["name"] for tensor in signature[key]) for key in ("input", "output"))
        print(f"{name}: {inputs or 'nothing'} -> {outputs}")


if __name__ == "__main__":
    run(read_url(__doc__))
