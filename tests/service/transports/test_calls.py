"""Each transport in this process, asked by stock clients: answers, statuses, deadlines, cancellation, shutdown."""

import asyncio
import time
from contextlib import asynccontextmanager

import grpc
import numpy as np
import pytest
import tritonclient.grpc as sync_triton
import tritonclient.grpc.aio as triton
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from service import raw_tensor, response_codec
from tests.service.serving import WAIT_S, Gate, counters, kit, rows, serving
from tests.service.transports.channels import bind

pytestmark = pytest.mark.usefixtures("each_transport")

STATUS = grpc.StatusCode


def run(main, servable=None, addresses=("127.0.0.1:0",)):
    """Run ``main(served, transport)`` beside a transport, within a bounded time."""

    async def serve(served):
        transport = bind(served.servicer, addresses=addresses)
        await transport.start()
        try:
            await main(served, transport)
        finally:
            await transport.stop(0)

    with serving(servable or kit()) as served:
        asyncio.run(asyncio.wait_for(serve(served), 2 * WAIT_S))


@asynccontextmanager
async def connected(transport):
    async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
        yield service_pb2_grpc.GRPCInferenceServiceStub(channel)


def request(array=None, signature=None, model="clip"):
    """A request of the stock client's own message type."""
    array = rows(1) if array is None else array
    made = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[array.tobytes()])
    made.inputs.add(name="x", datatype="FP32", shape=array.shape)
    if signature:
        made.parameters["signature"].string_param = signature
    return made


async def failure(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), caught.value.details()


async def entered(gate):
    """Wait until a run is inside the gate, without holding up the event loop that serves."""
    await asyncio.to_thread(gate.wait_until_entered)


async def until(holds):
    """Give the server its turns until something holds that no event tells of."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline
        await asyncio.sleep(0)


# Answers. --------------------------------------------------------------------------------------------------------


def test_stock_client_gets_its_rows_from_the_signature_that_it_names():
    async def main(served, transport):
        tensor = triton.InferInput("x", [2, 2], "FP32")
        tensor.set_data_from_numpy(rows(1, 2))
        async with triton.InferenceServerClient(transport.addresses[0]) as client:
            plain = await client.infer("clip", [tensor])
            alias = await client.infer("clip:embed", [tensor], request_id="seven")
            named = await client.infer("clip", [tensor], parameters={"signature": "embed"})

        np.testing.assert_array_equal(plain.as_numpy("y"), 2 * rows(1, 2))
        np.testing.assert_array_equal(alias.as_numpy("z"), np.ones((2, 3), np.float32))
        assert alias.get_response().id == "seven"
        assert named.get_response().parameters["signature"].string_param == "embed"

    run(main)


def test_every_other_method_that_stock_clients_call_is_answered():
    async def main(served, transport):
        async with triton.InferenceServerClient(transport.addresses[0]) as client:
            assert await client.is_server_live()
            assert await client.is_server_ready()
            assert await client.is_model_ready("clip")
            assert not await client.is_model_ready("clip:nope")
            assert (await client.get_server_metadata()).name == "mine"
            assert (await client.get_model_metadata("clip:embed")).outputs[0].name == "z"
            assert (await client.get_model_config("clip")).config.name == "clip"
            assert len((await client.get_inference_statistics()).model_stats) == 1

    run(main)


def test_many_requests_at_once_get_their_own_answers():
    async def main(served, transport):
        async with connected(transport) as stub:
            answers = await asyncio.gather(*(stub.ModelInfer(request(rows(number))) for number in range(200)))

        got = [np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() for answer in answers]
        assert got == [[2 * number] * 2 for number in range(200)]

    run(main)


def test_tensor_larger_than_grpcs_default_limit_passes_both_ways():
    async def main(served, transport):
        text = raw_tensor.encode(raw_tensor.from_elements([bytes(12_000_000)], (1,)))  # gRPC's own limit is 4 MB
        large = service_pb2.ModelInferRequest(model_name="clip:text", raw_input_contents=[text])
        large.inputs.add(name="s", datatype="BYTES", shape=[1])
        options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(transport.addresses[0], options=options) as channel:
            answer = await service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(large)

        assert answer.raw_output_contents[0] == text

    run(main)


def test_several_addresses_serve_the_same_models(tmp_path):
    async def main(served, transport):
        assert transport.addresses[1] == f"unix:{tmp_path}/signet.sock"
        for address in transport.addresses:
            async with triton.InferenceServerClient(address) as client:
                assert await client.is_model_ready("clip")

    run(main, addresses=("127.0.0.1:0", f"unix:{tmp_path}/signet.sock"))


def test_port_zero_is_told_as_the_port_that_was_taken():
    async def main(served, transport):
        host, _, port = transport.addresses[0].rpartition(":")

        assert host == "127.0.0.1"
        assert int(port) > 0

    run(main)


def test_address_that_another_server_has_is_an_error_that_names_it():
    async def main(served, transport):
        with pytest.raises(OSError, match=f"cannot listen on {transport.addresses[0]}"):
            bind(served.servicer, addresses=transport.addresses)

    run(main)


# Statuses. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "code", "text"),
    [
        (request(model="nope"), STATUS.NOT_FOUND, "'nope'"),
        (request(signature="nope"), STATUS.INVALID_ARGUMENT, "available: "),
        (request(np.ones((1, 3), np.float32)), STATUS.INVALID_ARGUMENT, "[1,3]"),
        (request(signature="broken"), STATUS.UNAVAILABLE, "no such node"),
    ],
)
def test_refusals_have_the_status_of_their_kind(sent, code, text):
    async def main(served, transport):
        async with connected(transport) as stub:
            got, told = await failure(stub.ModelInfer(sent))

        assert got is code
        assert text in told

    run(main)


def test_failure_in_the_model_is_internal_without_the_servers_secrets():
    def fail(inputs):
        raise RuntimeError("secret")

    async def main(served, transport):
        async with connected(transport) as stub:
            code, told = await failure(stub.ModelInfer(request(signature="embed")))
            after = await stub.ModelInfer(request())

        assert code is STATUS.INTERNAL
        assert "secret" not in told
        assert after.outputs

    run(main, kit(embed=fail))


def test_answer_over_the_size_of_a_message_is_resource_exhausted(monkeypatch):
    monkeypatch.setattr(response_codec, "MAX_MESSAGE_BYTES", 15)

    async def main(served, transport):
        async with connected(transport) as stub:
            code, _ = await failure(stub.ModelInfer(request(rows(1, 2))))

        assert code is STATUS.RESOURCE_EXHAUSTED

    run(main)


@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata", "ServerLive"])
def test_bytes_that_are_no_message_are_internal(method):
    async def main(served, transport):
        async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            code, told = await failure(call(b"\xff\xff\xff"))

        assert (code, told) == (STATUS.INTERNAL, "Unable to parse request")

    run(main)


def test_unknown_method_is_unimplemented():
    async def main(served, transport):
        async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
            code, _ = await failure(channel.unary_unary("/inference.GRPCInferenceService/Nope")(b""))

        assert code is STATUS.UNIMPLEMENTED

    run(main)


def test_defect_in_a_method_is_internal_with_a_fixed_text(monkeypatch, caplog):
    async def main(served, transport):
        # Handlers are bound when the transport is made; the repository that they ask breaks afterwards.
        monkeypatch.setattr(served.repository, "model_names", lambda: 1 / 0)
        async with connected(transport) as stub:
            code, told = await failure(stub.ModelStatistics(service_pb2.ModelStatisticsRequest()))

        assert code is STATUS.INTERNAL
        assert "division" not in told
        assert "ZeroDivisionError" in caplog.text

    run(main)


# Deadlines and cancellation. -------------------------------------------------------------------------------------


def test_deadline_ends_the_call_and_takes_the_request_out_of_the_queue():
    gate = Gate()

    async def main(served, transport):
        async with connected(transport) as stub:
            first = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            code, _ = await failure(stub.ModelInfer(request(), timeout=0.05))
            assert not first.done()
            await until(lambda: served.statistics("clip:serving_default").fail.count == 1)
            gate.opened.set()
            await first

        assert code is STATUS.DEADLINE_EXCEEDED
        assert counters(served.statistics("clip:serving_default"))["runs"] == 0

    run(main, kit(store=gate))


def test_timeout_parameter_is_unavailable_and_not_the_deadline():
    gate = Gate()

    async def main(served, transport):
        async with connected(transport) as stub:
            first = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            late = request()
            late.parameters["timeout"].int64_param = 1000
            code, told = await failure(stub.ModelInfer(late, timeout=WAIT_S))
            gate.opened.set()
            await first

        assert code is STATUS.UNAVAILABLE
        assert told.startswith("Request timeout expired")

    run(main, kit(store=gate))


def test_cancelled_call_that_waits_is_never_run():
    gate = Gate()

    async def main(served, transport):
        loaded = served.repository.find("clip", "").loaded
        async with connected(transport) as stub:
            first = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            waiting = stub.ModelInfer(request())
            await until(lambda: loaded.scheduler.counts().queued_tasks == 1)
            waiting.cancel()
            await until(lambda: served.statistics("clip:serving_default").fail.count == 1)
            assert loaded.scheduler.counts().queued_tasks == 0
            gate.opened.set()
            await first

        assert waiting.cancelled()
        assert counters(served.statistics("clip:serving_default"))["runs"] == 0

    run(main, kit(store=gate))


def test_cancelled_call_that_runs_counts_as_a_success_and_the_server_goes_on():
    gate = Gate()

    async def main(served, transport):
        async with connected(transport) as stub:
            running = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            running.cancel()
            gate.opened.set()
            await until(lambda: served.statistics("clip:store").success.count == 1)
            assert (await stub.ModelInfer(request())).outputs

        assert served.statistics("clip:store").fail.count == 0

    run(main, kit(store=gate))


# Shutdown. -------------------------------------------------------------------------------------------------------


def test_stop_refuses_new_calls_and_answers_those_that_were_taken():
    gate = Gate()

    async def main(served, transport):
        async with connected(transport) as stub:
            taken = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            stopping = asyncio.create_task(transport.stop(WAIT_S))
            await asyncio.sleep(0)
            async with connected(transport) as other:
                code, _ = await failure(other.ModelInfer(request()))
            assert not stopping.done()
            gate.opened.set()
            answer = await taken
            await stopping

        assert code is STATUS.UNAVAILABLE
        assert np.frombuffer(answer.raw_output_contents[0], np.float32).tolist() == [2, 2]

    run(main, kit(store=gate))


def test_stop_without_grace_ends_what_waits():
    gate = Gate()

    async def main(served, transport):
        async with connected(transport) as stub:
            running = stub.ModelInfer(request(signature="store"))
            await entered(gate)
            await transport.stop(0)
            code, _ = await failure(running)
            gate.opened.set()

        assert code in (STATUS.UNAVAILABLE, STATUS.CANCELLED)

    run(main, kit(store=gate))


def test_blocking_stock_client_reads_the_status_of_a_refusal():
    async def main(served, transport):
        def ask():
            tensor = sync_triton.InferInput("x", [1, 2], "FP32")
            tensor.set_data_from_numpy(rows(1))
            with sync_triton.InferenceServerClient(transport.addresses[0]) as client:
                client.infer("clip", [tensor], parameters={"signature": "nope"})

        with pytest.raises(InferenceServerException) as caught:
            await asyncio.to_thread(ask)

        assert caught.value.status() == "StatusCode.INVALID_ARGUMENT"

    run(main)
