"""Calls that fail leave their requests to nobody: memory is free when the call ends, not when garbage is collected."""

import gc
import types
from contextlib import contextmanager
from pathlib import Path

import grpc
import numpy as np
import pytest

import service
from service.errors import InternalError
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import kit, rows
from tests.service.transports.test_calls import connected, request, run

pytestmark = pytest.mark.usefixtures("each_transport")

SERVICE = str(Path(service.__file__).parent)


def fail(inputs):
    raise InternalError("it fails")


def failing():
    """A model that fails in every run."""
    return FakeServable((signature("serving_default", [spec("x")], [spec("y")]), fail))


@contextmanager
def no_garbage():
    """Check that no frame of the service, and so nothing that was in one, waits for the garbage collector."""
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield
        gc.collect()
        frames = [each for each in gc.garbage if isinstance(each, types.FrameType)]
        found = {each.f_code.co_qualname for each in frames if each.f_code.co_filename.startswith(SERVICE)}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert found == set()


async def ask(transport, message):
    async with connected(transport) as stub:
        with pytest.raises(grpc.aio.AioRpcError):
            await stub.ModelInfer(message)


async def ask_in_stream(transport, message, metadata=()):
    async with connected(transport) as stub:
        try:
            return [answer.error_message async for answer in stub.ModelStreamInfer(iter([message]), metadata=metadata)]
        except grpc.aio.AioRpcError as error:
            return error.code()


@pytest.mark.parametrize(
    ("servable", "message"),
    [
        (kit, request(model="nope")),
        (kit, request(np.zeros((1, 7), np.float32))),
        (failing, request(rows(1))),
    ],
    ids=["unknown model", "wrong shape", "failed run"],
)
def test_failed_calls_leave_no_garbage(servable, message):
    async def main(_served, transport):
        await ask(transport, message)  # what is made once stays
        with no_garbage():
            for _ in range(3):
                await ask(transport, message)
            assert all(await ask_in_stream(transport, message))

    run(main, servable())


def test_stream_that_a_failure_ends_leaves_no_garbage():
    async def main(_served, transport):
        with no_garbage():
            assert (
                await ask_in_stream(transport, request(), [("triton_grpc_error", "true")]) is grpc.StatusCode.INTERNAL
            )

    run(main, failing())


@pytest.mark.parametrize(
    "path", ["/inference.GRPCInferenceService/ModelInfer", "/grpc.health.v1.Health/Check"], ids=["infer", "health"]
)
def test_calls_that_are_refused_before_the_data_plane_leave_no_garbage(path):
    """Bytes that are no request, and a service that is unknown."""
    message = b"\xff\xff" if "inference" in path else b"\n\4nope"

    async def main(_served, transport):
        async with grpc.aio.insecure_channel(transport.addresses[0]) as channel:
            with no_garbage():
                for _ in range(3):
                    with pytest.raises(grpc.aio.AioRpcError):
                        await channel.unary_unary(path)(message)

    run(main)
