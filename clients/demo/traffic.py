"""Many threads of stock clients, each sending its share of the requests and checking every answer."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from clients.demo.calls import Request, Tensors, find_fault

_CALL_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True)
class Outcome:
    """What became of one request.

    Attributes:
        request: the request.
        answer: the outputs as they came; empty when the call failed.
        fault: what was wrong, or None.
    """

    request: Request
    answer: Tensors
    fault: str | None


def send_all(address: str, model: str, requests: list[Request], threads: int, timeout_s: float) -> list[Outcome]:
    """Send the requests from ``threads`` threads, each over a client of its own, one request at a time.

    Returns:
        One outcome for each request, in any order. Requests that were not sent after ``timeout_s`` seconds are faults.
    """
    deadline = time.monotonic() + timeout_s
    with ThreadPoolExecutor(threads) as pool:
        shares = [pool.submit(_send_share, address, model, requests[i::threads], deadline) for i in range(threads)]
        return [outcome for share in shares for outcome in share.result()]


def _send_share(address: str, model: str, requests: list[Request], deadline: float) -> list[Outcome]:
    with InferenceServerClient(address) as client:
        return [
            _send(client, model, request)
            if time.monotonic() < deadline
            else Outcome(request, {}, "not sent: no time was left")
            for request in requests
        ]


def _send(client: InferenceServerClient, model: str, request: Request) -> Outcome:
    signature = request.call.signature
    inputs = [_to_input(name, array) for name, array in request.inputs.items()]
    try:
        # This parameter is all that a client says to choose a signature.
        result = client.infer(model, inputs, parameters={"signature": signature}, client_timeout=_CALL_TIMEOUT_S)
    except InferenceServerException as error:
        return Outcome(request, {}, str(error))
    answer = {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}
    return Outcome(request, answer, _find_wrong_signature(result, signature) or find_fault(answer, request.expected))


def _to_input(name: str, array: np.ndarray) -> InferInput:
    tensor = InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
    return tensor.set_data_from_numpy(array)


def _find_wrong_signature(result: InferResult, signature: str) -> str | None:
    """An answer to a request that named its signature says which one made it."""
    answered_by = result.get_response().parameters["signature"].string_param
    return None if answered_by == signature else f"answered by signature {answered_by!r} instead of {signature!r}"
