"""grpc.reflection.v1alpha, with which generic tools list what is served and learn its messages."""

from collections.abc import AsyncIterator
from typing import Final

import grpc
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection, reflection_pb2

from protos import grpc_service_pb2
from service.errors import SignetError
from service.transports.call import Context, abort, parse
from service.transports.lasting import LastingCalls

_FILES: Final = (grpc_service_pb2.DESCRIPTOR, health_pb2.DESCRIPTOR, reflection_pb2.DESCRIPTOR)


def reflection_handler(lasting: LastingCalls) -> grpc.GenericRpcHandler:
    """Return what serves the reflection service; its streams end with the lasting calls."""
    names = [service.full_name for file in _FILES for service in file.services_by_name.values()]
    servicer = reflection.aio.ReflectionServicer(names, pool=_pool(_FILES))

    async def serve(_requests: object, context: Context) -> None:
        try:
            async for response in servicer.ServerReflectionInfo(_read(context, lasting), context):
                await context.write(response)
        except SignetError as error:
            await abort(context, error)

    method = grpc.stream_stream_rpc_method_handler(
        serve, response_serializer=reflection_pb2.ServerReflectionResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler(reflection.SERVICE_NAME, {"ServerReflectionInfo": method})


async def _read(context: Context, lasting: LastingCalls) -> AsyncIterator[reflection_pb2.ServerReflectionRequest]:
    # The iterator that gRPC offers keeps its last message until the garbage collector comes by, when the call fails.
    while True:
        # Around this wait alone: a call whose answer is half written could not be ended.
        with lasting.until_stop():
            data = await context.read()
        if data is grpc.aio.EOF:
            return
        yield parse(reflection_pb2.ServerReflectionRequest, data)


def _pool(files: tuple[FileDescriptor, ...]) -> DescriptorPool:
    """Return one pool for descriptors of different pools: ours are in a private one, all others in the default one."""
    pool = DescriptorPool()
    added: set[str] = set()

    def add(file: FileDescriptor) -> None:
        if file.name in added:
            return
        added.add(file.name)
        for dependency in file.dependencies:
            add(dependency)
        pool.AddSerializedFile(file.serialized_pb)

    for file in files:
        add(file)
    return pool
