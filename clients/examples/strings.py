"""Strings are tensors of datatype BYTES: object arrays of ``bytes``, any bytes, in both directions."""

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput

from clients.examples.arguments import read_url


def run(url: str) -> None:
    """Send words, some of which name no digit, and read words."""
    sent = np.array(["seven", " Seven ", "sept", b"\xff"], np.object_)
    words = InferInput("words", sent.shape, "BYTES").set_data_from_numpy(sent)
    with InferenceServerClient(url) as client:
        embedded = client.infer("digits", [words], parameters={"signature": "embed_text"}).as_numpy("embedding")
        about = client.infer("digits", [], parameters={"signature": "metadata"})
    for word, vector in zip(sent, embedded, strict=True):
        print(f"{word!r}: {'names a digit' if vector.any() else 'names none'}")
    print(*(name.decode() for name in about.as_numpy("class_names")))


if __name__ == "__main__":
    run(read_url(__doc__))
