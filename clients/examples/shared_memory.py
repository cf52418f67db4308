"""Tensors in shared memory, for a client on the server's host: the request carries no data, nor does the answer."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, InferRequestedOutput
from tritonclient.utils import shared_memory

from clients.examples.arguments import read_url
from clients.examples.picture import ZERO

_EMBEDDING_BYTES = 32 * 4  # FP32 [1, 32]


def run(url: str) -> None:
    """Read the picture from one region and write its embedding into another."""
    with (
        InferenceServerClient(url) as client,
        _region(client, "picture", ZERO.nbytes) as (name_in, memory_in),
        _region(client, "embedding", _EMBEDDING_BYTES) as (name_out, memory_out),
    ):
        shared_memory.set_shared_memory_region(memory_in, [ZERO])
        images = InferInput("images", ZERO.shape, "FP32")
        images.set_shared_memory(name_in, ZERO.nbytes)
        embedding = InferRequestedOutput("embedding")
        embedding.set_shared_memory(name_out, _EMBEDDING_BYTES)
        client.infer("digits", [images], outputs=[embedding], parameters={"signature": "embeddings"})
        vector = shared_memory.get_contents_as_numpy(memory_out, np.float32, [1, 32])
        print(f"an embedding of length {np.linalg.norm(vector):.2f}")
        del vector  # a view of the region, which goes now


@contextmanager
def _region(client: InferenceServerClient, name: str, size: int) -> Iterator[tuple[str, Any]]:
    """Make an object in shared memory and register it; both are gone after the block."""
    unique = f"{name}_{os.getpid()}"
    memory = shared_memory.create_shared_memory_region(unique, f"/{unique}", size)
    try:
        client.register_system_shared_memory(unique, f"/{unique}", size)
        yield unique, memory
    finally:
        client.unregister_system_shared_memory(unique)
        shared_memory.destroy_shared_memory_region(memory)


if __name__ == "__main__":
    run(read_url(__doc__))
