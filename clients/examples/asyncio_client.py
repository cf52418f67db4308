"""Many requests on their way from one coroutine: the asyncio client of the same package."""

import asyncio

from tritonclient.grpc import InferInput
from tritonclient.grpc.aio import InferenceServerClient

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_REQUESTS = 20


def run(url: str) -> None:
    """Send requests at once and wait for all of them."""
    asyncio.run(_run(url))


async def _run(url: str) -> None:
    images = InferInput("images", ZERO.shape, "FP32").set_data_from_numpy(ZERO)
    async with InferenceServerClient(url) as client:
        requests = [client.infer("digits", [images], parameters={"signature": "predict"}) for _ in range(_REQUESTS)]
        results = await asyncio.gather(*requests)
    print(f"{len(results)} answers, all a {results[0].as_numpy('class')[0]}")


if __name__ == "__main__":
    run(read_url(__doc__))
