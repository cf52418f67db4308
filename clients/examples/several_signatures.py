"""Several signatures of one model at once: which word names the picture, and is it near enough?

The four requests are on their way at the same moment, over one connection; the server runs them on one copy of the
weights.
"""

import asyncio

import numpy as np
from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_WORDS = np.array([b"zero", b"one", b"two"], np.object_)


def run(url: str) -> None:
    """Compare the picture with the words."""
    asyncio.run(_run(url))


async def _run(url: str) -> None:
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    words = InferInput("words", _WORDS.shape, "BYTES").set_data_from_numpy(_WORDS)
    async with InferenceServerClient(url) as client:

        async def ask(signature: str, *inputs: InferInput) -> dict[str, np.ndarray]:
            result = await client.infer("digits", inputs, parameters={"signature": signature})
            return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}

        picture, names, threshold, about = await asyncio.gather(
            ask("embeddings", images), ask("embed_text", words), ask("text_threshold"), ask("metadata")
        )
    cosines = (picture["embedding"] @ names["embedding"].T)[0]
    for word, cosine in zip(_WORDS, cosines, strict=True):
        print(f"{word.decode()}: {cosine:.2f}, {'named' if cosine > threshold['threshold'] else 'not named'}")
    print(about["description"].item().decode())


if __name__ == "__main__":
    run(read_url(__doc__))
