"""Many threads of stock clients, each sending its share of the requests and checking every answer."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import numpy as np
from tritonclient.grpc import InferenceServerClient, InferInput, InferResult
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from clients.demo.calls import Request, Tensors, find_fault

_CALL_TIMEOUT_S: Final = 10.0
_AT_ONCE: Final = 32
"""Requests that a thread sends before it waits for their answers: what waits together, the server can join."""


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
    """Send the requests from ``threads`` threads, each over a client of its own, some at once.

    Returns:
        One outcome for each request, in any order. Requests that were not sent after ``timeout_s`` seconds are faults.
    """
    deadline = time.monotonic() + timeout_s
    with ThreadPoolExecutor(threads) as pool:
        shares = [pool.submit(_send_share, address, model, requests[i::threads], deadline) for i in range(threads)]
        return [outcome for share in shares for outcome in share.result()]


def _send_share(address: str, model: str, requests: list[Request], deadline: float) -> list[Outcome]:
    outcomes: list[Outcome] = []
    with InferenceServerClient(address) as client:
        for start in range(0, len(requests), _AT_ONCE):
            group = requests[start : start + _AT_ONCE]
            if time.monotonic() < deadline:
                answers = [_send(client, model, request) for request in group]
                outcomes += [_check(request, answer) for request, answer in zip(group, answers, strict=True)]
            else:
                outcomes += [Outcome(request, {}, "not sent: no time was left") for request in group]
    return outcomes


def _send(client: InferenceServerClient, model: str, request: Request) -> "Future[InferResult]":
    """Send a request without waiting for its answer."""
    answer: Future[InferResult] = Future()

    def done(result: InferResult | None, error: InferenceServerException | None) -> None:
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)

    inputs = [_to_input(name, array) for name, array in request.inputs.items()]
    # This parameter is all that a client says to choose a signature.
    parameters = {"signature": request.call.signature}
    client.async_infer(model, inputs, done, parameters=parameters, client_timeout=_CALL_TIMEOUT_S)
    return answer


def _check(request: Request, answer: "Future[InferResult]") -> Outcome:
    """Wait for the answer to a request and compare it with the right one."""
    try:
        result = answer.result()
    except InferenceServerException as error:
        return Outcome(request, {}, str(error))
    outputs = {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}
    fault = _find_wrong_signature(result, request.call.signature) or find_fault(outputs, request.expected)
    return Outcome(request, outputs, fault)


def _to_input(name: str, array: np.ndarray) -> InferInput:
    tensor = InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
    return tensor.set_data_from_numpy(array)


def _find_wrong_signature(result: InferResult, signature: str) -> str | None:
    """An answer to a request that named its signature says which one made it."""
    answered_by = result.get_response().parameters["signature"].string_param
    return None if answered_by == signature else f"answered by signature {answered_by!r} instead of {signature!r}"
