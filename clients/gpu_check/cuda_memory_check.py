"""Tensors in GPU memory that the client shares."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
from tritonclient.grpc import InferInput, InferRequestedOutput

from clients.gpu_check.answer_checks import TOLERANCE, difference
from clients.gpu_check.finding import NO_GPU, Finding
from clients.gpu_check.subject import CALL_TIMEOUT_S, Subject

_GIVEN: Final = "gpu_check_x"
_WANTED: Final = "gpu_check_y"


def tensors_pass_in_gpu_memory(subject: Subject) -> Finding:
    """Send and receive by regions on a GPU that is in use, by the utilities of the stock client."""
    if not subject.is_gpu:
        return NO_GPU
    try:
        cuda = importlib.import_module("tritonclient.utils.cuda_shared_memory")
    except (ImportError, RuntimeError) as error:  # RuntimeError where the driver's bindings are missing
        return Finding(f"not checked: tritonclient's CUDA utilities do not work here: {error}", None)
    device = int(next(iter(subject.device_runs("network"))).partition(":")[2])
    try:
        scores = _infer(cuda, subject, device)
    except cuda.CudaSharedMemoryException as error:
        return Finding(f"tritonclient's CUDA utilities failed: {error}", ok=False)
    worst = difference(scores, subject.answers["scores.y"])
    return Finding(f"on GPU:{device}; scores differ by up to {worst:.1e}", ok=worst <= TOLERANCE)


def _infer(cuda: Any, subject: Subject, device: int) -> np.ndarray:
    """Return the scores, which came by a region."""
    x, expected = subject.answers["x"], subject.answers["scores.y"]
    with (
        _region(cuda, subject, _GIVEN, x.nbytes, device) as region,
        _region(cuda, subject, _WANTED, expected.nbytes, device) as answered,
    ):
        cuda.set_shared_memory_region(region, [x])
        given = InferInput("x", list(x.shape), "FP32")
        given.set_shared_memory(_GIVEN, x.nbytes)
        wanted = InferRequestedOutput("y")
        wanted.set_shared_memory(_WANTED, expected.nbytes)
        subject.client.infer(
            "network", [given], outputs=[wanted], parameters={"signature": "scores"}, client_timeout=CALL_TIMEOUT_S
        )
        return np.array(cuda.get_contents_as_numpy(answered, np.float32, list(expected.shape)))


@contextmanager
def _region(cuda: Any, subject: Subject, name: str, size: int, device: int) -> Iterator[Any]:
    """Allocate and register memory on a GPU; both are undone after the block."""
    region = cuda.create_shared_memory_region(name, size, device)
    try:
        handle = cuda.get_raw_handle(region)
        subject.client.register_cuda_shared_memory(name, handle, device, size, client_timeout=CALL_TIMEOUT_S)
        try:
            yield region
        finally:
            subject.client.unregister_cuda_shared_memory(name, client_timeout=CALL_TIMEOUT_S)
    finally:
        cuda.destroy_shared_memory_region(region)
