"""ModelStreamInfer over a real connection: order, errors, ends of every kind, and bounds."""

import asyncio

import grpc
import numpy as np
import pytest

from protos import grpc_service_pb2 as pb
from service.errors import InternalError
from service.transports import stream as stream_module
from tests.service.serving import WAIT_S, Busy, Gate, counters, kit, message, rows, serving
from tests.service.transports.channels import connected, eventually, failure, run

pytestmark = pytest.mark.usefixtures("each_transport")

FINAL = {"triton_final_response": pb.InferParameter(bool_param=True)}
STATUS_HEADER = (("triton_grpc_error", "true"),)


def fail(_inputs):
    raise InternalError("the model is broken")


def ids(answers):
    return [answer.infer_response.id for answer in answers]


def value(answer):
    """Return the first element of the first output."""
    assert not answer.error_message
    return float(np.frombuffer(answer.infer_response.raw_output_contents[0], np.float32)[0])


def numbered(*numbers, **options):
    """Return requests whose ids and values are the numbers."""
    return [message({"x": rows(number)}, request_id=str(number), **options) for number in numbers]


def talk(servable, requests, **options):
    """Send requests to a served model in one stream; return all answers."""

    async def main():
        with serving(servable) as served:
            async with connected(served) as client:
                return await client.talk(requests, **options)

    return run(main)


def queued(busy):
    """Return how many requests wait in the queue of a busy server's model."""
    (target,) = busy.served.repository.find_ready("clip")
    return target.loaded.scheduler.counts().queued_tasks


async def read_all(call):
    """Return all further answers of a stream, and with which status it ended."""
    answers = []
    try:
        while (answer := await call.read()) is not grpc.aio.EOF:
            answers.append(answer)
    except grpc.aio.AioRpcError:
        pass
    return answers, await call.code()


def test_answer_is_that_of_a_unary_call_and_marked_as_final():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                (request,) = numbered(7)
                (answer,) = await client.talk([request])
                unary = await client.stub.ModelInfer(request)
                unary.parameters["triton_final_response"].bool_param = True
                return answer, unary

    answer, unary = run(main)
    assert answer == pb.ModelStreamInferResponse(infer_response=unary)
    assert dict(answer.infer_response.parameters) == FINAL


def test_answers_come_in_the_order_of_requests():
    answers = talk(kit(), numbered(*range(1, 301)))

    assert ids(answers) == [str(number) for number in range(1, 301)]
    assert [value(answer) for answer in answers] == [2.0 * number for number in range(1, 301)]


def test_quick_model_waits_for_its_turn_behind_a_slow_one():
    slow, quick = Gate(), kit()

    async def main():
        with serving({"slow": {1: kit(serving_default=slow)}, "quick": {1: quick}}) as served:
            async with connected(served) as client:
                call = client.stream()
                await call.write(message(model="slow", request_id="1"))
                await call.write(message(model="quick", request_id="2"))
                await eventually(lambda: quick.runs)
                slow.opened.set()
                await call.done_writing()
                return await read_all(call)

    answers, code = run(main)
    assert (ids(answers), code) == (["1", "2"], grpc.StatusCode.OK)


def test_answer_leaves_while_the_stream_goes_on():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                call, seen = client.stream(), []
                for request in numbered(1, 2, 3):
                    await call.write(request)
                    seen.append(value(await call.read()))
                await call.done_writing()
                assert await call.read() is grpc.aio.EOF
                return seen

    assert run(main) == [2.0, 4.0, 6.0]


def test_a_held_up_stream_holds_up_no_other_call():
    gate = Gate()

    async def main():
        models = {"slow": {1: kit(serving_default=gate)}, "clip": {1: kit()}}
        with serving(models) as served:
            async with connected(served) as client:
                held = client.stream()
                await held.write(message(model="slow", request_id="slow"))
                await asyncio.to_thread(gate.wait_until_entered)
                (other,) = await client.talk(numbered(1))
                unary = await client.stub.ModelInfer(message(request_id="unary"), timeout=WAIT_S)
                gate.opened.set()
                slow = await held.read()
                await held.done_writing()
                return [other.infer_response.id, unary.id, slow.infer_response.id]

    assert run(main) == ["1", "unary", "slow"]


def test_requests_of_one_stream_share_a_batch():
    async def main():
        with Busy() as busy:
            async with connected(busy.served) as client:
                call = client.stream()
                for request in numbered(1, 2, 3, 4):
                    await call.write(request)
                await call.done_writing()
                await eventually(lambda: queued(busy) == 4)
                busy.gate.opened.set()
                answers, _ = await read_all(call)
                return [value(answer) for answer in answers], busy.servable.runs[1:]

    assert run(main) == ([2.0, 4.0, 6.0, 8.0], [("serving_default", 4, ("y",))])


def test_stream_without_requests_ends_well():
    assert talk(kit(), []) == []


def test_refusal_is_told_with_the_id_alone_and_the_stream_goes_on():
    good, other = numbered(1, 2)
    refused, answer = talk(kit(), [message(model="nope", request_id="bad"), good])
    assert refused.error_message == "Request for unknown model: 'nope' is not found"
    assert refused.HasField("infer_response")
    assert refused.infer_response == pb.ModelInferResponse(id="bad")
    assert value(answer) == 2.0

    refused, answer = talk(kit(), [message(model="nope"), other], metadata=STATUS_HEADER)
    assert refused.HasField("infer_response")
    assert refused.infer_response == pb.ModelInferResponse()
    assert value(answer) == 4.0


def test_failure_of_the_model_is_told_with_its_name_and_the_stream_goes_on():
    failed, answer = talk(kit(embed=fail), [message(request_id="bad", signature="embed"), *numbered(1)])

    assert failed.error_message == "the model is broken"
    assert failed.infer_response == pb.ModelInferResponse(id="bad", model_name="clip", parameters=FINAL)
    assert value(answer) == 2.0


def test_failure_tells_the_version_that_the_request_named():
    (failed,) = talk(kit(serving_default=fail), [message(version="1")])

    assert failed.infer_response.model_version == "1"


def test_on_request_a_failure_of_the_model_ends_the_stream_with_its_status():
    async def main():
        with serving(kit(embed=fail)) as served:
            async with connected(served) as client:
                call = client.stream(metadata=STATUS_HEADER)
                for request in (*numbered(1), message(signature="embed"), *numbered(2)):
                    await call.write(request)
                answers, code = await read_all(call)
                return ids(answers), code, await call.details()

    assert run(main) == (["1"], grpc.StatusCode.INTERNAL, "the model is broken")


@pytest.mark.parametrize("metadata", [(("triton_grpc_error", "false"),), (("other", "true"),)])
def test_other_headers_do_not_let_failures_end_the_stream(metadata):
    failed, answer = talk(kit(embed=fail), [message(signature="embed"), *numbered(1)], metadata=metadata)

    assert failed.error_message == "the model is broken"
    assert value(answer) == 2.0


@pytest.mark.parametrize("wanted", [True, False])
def test_empty_final_responses_may_be_asked_for_and_change_nothing(wanted):
    (request,) = numbered(1)
    request.parameters["triton_enable_empty_final_response"].bool_param = wanted

    (answer,) = talk(kit(), [request])
    assert dict(answer.infer_response.parameters) == FINAL


def test_bytes_that_are_no_request_end_the_stream_after_the_answers_before_them():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                raw = client.channel.stream_stream("/inference.GRPCInferenceService/ModelStreamInfer")
                call = raw(iter([numbered(1)[0].SerializeToString(), b"\xff\xff"]))
                answers, code = await read_all(call)
                return [pb.ModelStreamInferResponse.FromString(data).infer_response.id for data in answers], code

    assert run(main) == (["1"], grpc.StatusCode.INTERNAL)


def test_cancelling_a_stream_takes_its_requests_out_of_the_queue():
    async def main():
        with Busy() as busy:
            async with connected(busy.served) as client:
                call = client.stream()
                for request in numbered(1, 2, 3):
                    await call.write(request)
                await eventually(lambda: queued(busy) == 3)
                call.cancel()
                await eventually(lambda: queued(busy) == 0)
                busy.gate.opened.set()
                answer = await client.stub.ModelInfer(numbered(4)[0], timeout=WAIT_S)
                return answer.id, busy.servable.runs, counters(busy.served.statistics("clip:serving_default"))

    request_id, runs, counts = run(main)
    assert request_id == "4"
    assert runs == [("store", 1, ("y",)), ("serving_default", 1, ("y",))]
    assert (counts["success"], counts["fail"]) == (1, 3)


def test_deadline_of_a_stream_takes_its_requests_out_of_the_queue():
    async def main():
        with Busy() as busy:
            async with connected(busy.served) as client:
                call = client.stream(timeout=0.5)
                for request in numbered(1, 2, 3):
                    await call.write(request)
                _, code = await read_all(call)
                await eventually(lambda: queued(busy) == 0)
                return code, busy.servable.runs

    code, runs = run(main)
    assert code is grpc.StatusCode.DEADLINE_EXCEEDED
    assert runs == [("store", 1, ("y",))]


async def flood(client, call, requests):
    """Send all requests, however long the server holds them up."""
    for request in requests:
        await call.write(request)
    await call.done_writing()


async def round_trips(client):
    """Give the server many occasions to do what it must not do."""
    for _ in range(20):
        await client.stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)


def test_stream_holds_a_bounded_number_of_requests(monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_REQUESTS", 4)

    async def main():
        with Busy() as busy:
            async with connected(busy.served) as client:
                call = client.stream()
                sending = asyncio.create_task(flood(client, call, numbered(*range(1, 21))))
                await eventually(lambda: queued(busy) == 4)
                await round_trips(client)
                held = queued(busy)
                busy.gate.opened.set()
                answers, code = await read_all(call)
                await sending
                return held, ids(answers), code

    assert run(main) == (4, [str(number) for number in range(1, 21)], grpc.StatusCode.OK)


def test_stream_holds_a_bounded_number_of_bytes(monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_BYTES", 3000)
    requests = [message({"x": rows(*[number] * 125)}, request_id=str(number)) for number in range(10)]

    async def main():
        with Busy() as busy:
            async with connected(busy.served) as client:
                call = client.stream()
                sending = asyncio.create_task(flood(client, call, requests))
                # Each is a little more than 1000 bytes.
                await eventually(lambda: queued(busy) == 3)
                await round_trips(client)
                held = queued(busy)
                busy.gate.opened.set()
                answers, _ = await read_all(call)
                await sending
                return held, ids(answers)

    assert run(main) == (3, [str(number) for number in range(10)])


def test_client_that_does_not_read_is_held_up_and_holds_up_nobody(monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_BYTES", 2**20)
    total, x = 200, rows(*range(2**15))  # 256 KiB each, 50 MiB in all

    async def main():
        servable = kit()
        with serving(servable, default_max_batch_size=2**15) as served:
            async with connected(served) as client:
                call = client.stream()
                sending = asyncio.create_task(
                    flood(client, call, [message({"x": x}, request_id=str(number)) for number in range(total)])
                )
                await eventually(lambda: len(servable.runs) >= 4)
                await round_trips(client)
                (other,) = await client.talk(numbered(1))
                answered = served.statistics("clip").success.count
                answers, code = await read_all(call)
                await sending
                return other.infer_response.id, answered, ids(answers), code

    other, answered, answer_ids, code = run(main)
    assert other == "1"
    # What the connection itself buffers comes on top of the bound.
    assert answered < total // 2
    assert (answer_ids, code) == ([str(number) for number in range(total)], grpc.StatusCode.OK)


def test_answers_that_nobody_reads_count_for_the_bound(monkeypatch):
    monkeypatch.setattr(stream_module, "MAX_BYTES", 2**20)
    total = 60  # answers of 1 MiB to requests of a few bytes
    large = kit(text=lambda inputs: {"s": np.full(len(inputs["s"]), b"x" * 2**20, object)})
    request = message({"s": np.array([b"a"], object)}, signature="text")

    async def main():
        with serving(large) as served:
            async with connected(served) as client:
                call, sent = client.stream(), 0
                while sent < total:
                    await call.write(request)
                    sent += 1
                    try:
                        await asyncio.wait_for(eventually(lambda count=sent: len(large.runs) == count), 0.5)
                    except TimeoutError:
                        break
                await call.done_writing()
                answers, code = await read_all(call)
                return sent, len(answers), code

    sent, answered, code = run(main)
    assert sent < total
    assert (answered, code) == (sent, grpc.StatusCode.OK)


def test_hundreds_of_idle_streams_starve_nobody():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                idle = [client.stream() for _ in range(400)]
                for call in idle:
                    await call.write(numbered(1)[0])
                assert [value(await call.read()) for call in idle] == [2.0] * len(idle)
                live = await client.stub.ServerLive(pb.ServerLiveRequest(), timeout=5)
                unary = await client.stub.ModelInfer(numbered(3)[0], timeout=5)
                (streamed,) = await client.talk(numbered(4))
                for call in idle:
                    await call.done_writing()
                ends = {await call.code() for call in idle}
                return live.live, unary.id, streamed.infer_response.id, ends

    assert run(main) == (True, "3", "4", {grpc.StatusCode.OK})


def test_stopping_server_answers_what_it_took_and_ends_the_stream():
    async def main():
        gate = Gate()
        with serving(kit(serving_default=gate)) as served:
            async with connected(served) as client:
                call, idle = client.stream(), client.stream()
                await call.write(numbered(1)[0])
                await idle.write(message(model="nope"))
                await idle.read()
                await asyncio.to_thread(gate.wait_until_entered)
                stopping = asyncio.create_task(client.transport.stop(WAIT_S))
                idle_end = await read_all(idle)
                gate.opened.set()
                answers, code = await read_all(call)
                await stopping
                return idle_end, ids(answers), code, await call.details()

    unavailable = grpc.StatusCode.UNAVAILABLE
    assert run(main) == (([], unavailable), ["1"], unavailable, "the server is stopping")


def test_stopping_server_ends_a_stream_well_that_its_client_ended():
    async def main():
        gate = Gate()
        with serving(kit(serving_default=gate)) as served:
            async with connected(served) as client:
                call = client.stream()
                await call.write(numbered(1)[0])
                await call.done_writing()
                await asyncio.to_thread(gate.wait_until_entered)
                await round_trips(client)
                stopping = asyncio.create_task(client.transport.stop(WAIT_S))
                gate.opened.set()
                answers, code = await read_all(call)
                await stopping
                return ids(answers), code

    assert run(main) == (["1"], grpc.StatusCode.OK)


def test_stopped_server_refuses_a_stream():
    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                await client.transport.stop(WAIT_S)
                code, _ = await failure(client.talk(numbered(1)))
                return code

    assert run(main) is grpc.StatusCode.UNAVAILABLE
