"""Streams of the stock clients: order, errors on the way, many signatures, and a server that stops."""

import asyncio
import queue
import signal
import time
from contextlib import contextmanager

import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from clients.server_process import ServerProcess
from tests.end_to_end.calls import call, on_each_transport, rows, tensors
from tests.end_to_end.conftest import START_S, STOP_S
from tests.end_to_end.test_perf_analyzer import PERF_ANALYZER, measure

pytestmark = pytest.mark.end_to_end

WAIT_S = 60


@contextmanager
def streaming(address, **options):
    """Yield a client with an open stream, and the queue of what its callback gets."""
    answers = queue.Queue()
    with triton.InferenceServerClient(address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)), **options)
        yield client, answers
        client.stop_stream()


def take(answers, count):
    return [answers.get(timeout=WAIT_S) for _ in range(count)]


def send(client, number, signature=None, **options):
    """Send one row whose id is the number, with the number as the request's id."""
    options.setdefault("parameters", {"signature": signature} if signature else None)
    model = options.pop("model", "kit")
    client.async_stream_infer(model, tensors({"x": rows(1, number)}), request_id=str(number), **options)


def final(result):
    return result.get_response().parameters["triton_final_response"].bool_param


@on_each_transport
def test_answers_come_in_order_across_signatures(server):
    count = 300
    signatures = {None: "y", "embed": "z", "picky": "y", "slow": "y"}
    names = [list(signatures)[number % 4] for number in range(1, count + 1)]
    with streaming(server.address) as (client, answers):
        for number, signature in enumerate(names, 1):
            send(client, number, signature)
        seen = take(answers, count)

    assert [error for _, error in seen if error] == []
    results = [result for result, _ in seen]
    assert [result.get_response().id for result in results] == [str(number) for number in range(1, count + 1)]
    assert all(map(final, results))
    for number, (signature, result) in enumerate(zip(names, results, strict=True), 1):
        first = result.as_numpy(signatures[signature])[0, 0]
        assert first == (number if signature == "embed" else 10 * number)


def test_answer_of_a_named_signature_says_so(server):
    with streaming(server.address) as (client, answers):
        send(client, 1, "embed")
        send(client, 2, model="kit:embed")
        send(client, 3, enable_empty_final_response=True)
        embed, alias, default = (result.get_response() for result, _ in take(answers, 3))

    assert embed.parameters["signature"].string_param == "embed"
    assert alias.model_name == "kit:embed"
    assert "signature" not in default.parameters


@on_each_transport
def test_errors_are_told_and_the_stream_goes_on(server):
    with streaming(server.address) as (client, answers):
        send(client, 1)
        send(client, 2, model="nope")
        send(client, 3, "nope")
        send(client, 4)
        outcomes = [error.message() if error else result.get_response().id for result, error in take(answers, 4)]

    assert outcomes[0] == "1"
    assert outcomes[1] == "Request for unknown model: 'nope' is not found"
    assert "nope" in outcomes[2]
    assert outcomes[3] == "4"


def test_slow_request_holds_up_only_its_own_stream(server):
    slow = rows(1, 1)
    slow[0, 3] = 1500  # milliseconds
    with streaming(server.address) as (held, held_answers), streaming(server.address) as (other, other_answers):
        held.async_stream_infer("kit", tensors({"x": slow}), request_id="slow", parameters={"signature": "slow"})
        send(held, 2)
        send(other, 3)
        take(other_answers, 1)
        call(other, "kit", {"x": rows(1)})
        assert held_answers.empty()
        assert [result.get_response().id for result, _ in take(held_answers, 2)] == ["slow", "2"]


def test_aio_stream_answers_in_order_with_errors_between(server):
    async def requests():
        for number in range(1, 21):
            yield {
                "model_name": "nope" if number % 5 == 0 else "kit",
                "inputs": tensors({"x": rows(1, number)}),
                "request_id": str(number),
            }

    async def main():
        async with triton_aio.InferenceServerClient(server.address) as client:
            return [
                error.message() if error else result.as_numpy("y")[0, 0]
                async for result, error in client.stream_infer(requests(), stream_timeout=WAIT_S)
            ]

    unknown = "Request for unknown model: 'nope' is not found"
    assert asyncio.run(main()) == [unknown if number % 5 == 0 else 10.0 * number for number in range(1, 21)]


@pytest.mark.parametrize(
    ("transport", "algorithm"), [("auto", "gzip"), ("grpcio", "gzip"), ("grpcio", "deflate")], indirect=["transport"]
)
def test_compressed_streams_and_calls_are_taken(server, algorithm):
    with streaming(server.address, compression_algorithm=algorithm) as (client, answers):
        send(client, 1)
        ((streamed, _),) = take(answers, 1)
        unary = call(client, "kit", {"x": rows(50)}, compression_algorithm=algorithm)

    assert streamed.as_numpy("y")[0, 0] == 10
    np.testing.assert_array_equal(unary["y"], rows(50)[:, :2] * 10)


def test_deflated_call_on_the_native_transport_is_unimplemented_and_says_what_is_taken(client):
    """A limit of it, told in docs/compatibility.md; gzip is taken."""
    with pytest.raises(InferenceServerException, match="deflate") as caught:
        call(client, "kit", {"x": rows(50)}, compression_algorithm="deflate")

    assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


@on_each_transport
def test_twenty_megabytes_pass_in_a_stream(server):
    x = rows(1_300_000)
    with streaming(server.address) as (client, answers):
        client.async_stream_infer("kit", tensors({"x": x}))
        ((result, error),) = take(answers, 1)

    assert error is None
    np.testing.assert_array_equal(result.as_numpy("y"), x[:, :2] * 10)


@on_each_transport
def test_cancelled_stream_reports_so_and_the_server_goes_on(server):
    slow = rows(1)
    slow[0, 3] = 500
    answers = queue.Queue()
    with triton.InferenceServerClient(server.address) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for _ in range(10):
            client.async_stream_infer("kit", tensors({"x": slow}), parameters={"signature": "slow"})
        client.stop_stream(cancel_requests=True)
        _, error = answers.get(timeout=WAIT_S)
        assert error.status() == "StatusCode.CANCELLED"
        np.testing.assert_array_equal(call(client, "kit", {"x": rows(1)})["y"], rows(1)[:, :2] * 10)


def test_stopping_server_answers_what_streams_sent_and_does_not_wait_for_more(export):
    slow = rows(1, 7)
    slow[0, 3] = 3000
    # What comes within the delay is taken. The timeout is far longer than the test may take: a stream that nobody ends
    # must not use it up.
    with ServerProcess(export("kit"), "--drain-delay", "2", "--drain-timeout", "600") as server:
        server.wait_until_ready(START_S)
        with streaming(server.address) as (client, answers), streaming(server.address) as (idle, idle_answers):
            send(idle, 1)
            take(idle_answers, 1)
            client.async_stream_infer("kit", tensors({"x": slow}), parameters={"signature": "slow"})
            send(client, 8)
            server.send_signal(signal.SIGTERM)
            first, second, end = take(answers, 3)
            (idle_end,) = take(idle_answers, 1)
        code = server.wait(STOP_S)

    assert [result.as_numpy("y")[0, 0] for result, _ in (first, second)] == [70, 80]
    assert {error.status() for _, error in (end, idle_end)} == {"StatusCode.UNAVAILABLE"}
    assert code == 0


@pytest.mark.slow
def test_pings_five_seconds_apart_are_welcome_with_and_without_calls(server, capfd):
    """gRPC's own log tells when the server throws the client out."""
    patient = rows(1)
    patient[0, 3] = 16_000
    options = triton.KeepAliveOptions(
        keepalive_time_ms=5000, keepalive_permit_without_calls=True, http2_max_pings_without_data=0
    )
    with triton.InferenceServerClient(server.address, keepalive_options=options) as client:
        assert client.is_server_live()
        # The time itself is what is tested: three pings without a call, then three while one runs.
        time.sleep(16)
        np.testing.assert_array_equal(call(client, "kit", {"x": patient}, "slow")["y"], rows(1)[:, :2] * 10)

    assert "goaway" not in capfd.readouterr().err.lower()


@pytest.mark.skipif(not PERF_ANALYZER.exists(), reason="perf_analyzer is not installed: make perf-analyzer")
@pytest.mark.parametrize("model", ["kit", "kit:embed"])
def test_perf_analyzer_measures_streams(server, model):
    run = measure(server.address, "-m", model, "--shape", "x:4", "--streaming", "--async", "--concurrency-range", "16")

    assert run.returncode == 0, run.stdout + run.stderr
    assert "Inference count" in run.stdout
