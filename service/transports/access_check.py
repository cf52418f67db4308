"""Refuses calls on grpc.aio that the rules of access do not let through, before anything of them is read."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from service.access import Access
from service.errors import SignetError
from service.transports.call import Context, abort


class AccessCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc] # grpc publishes no types
    """Stands before every method of a server."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def intercept_service(
        self, continuation: Callable[[Any], Awaitable[grpc.RpcMethodHandler]], handler_call_details: Any
    ) -> grpc.RpcMethodHandler:
        """Return the method's own handler, or one that refuses the call."""
        metadata = handler_call_details.invocation_metadata or ()
        refusal = self._access.refusal(handler_call_details.method, metadata)
        return await continuation(handler_call_details) if refusal is None else _refuse(refusal)


def _refuse(refusal: SignetError) -> grpc.RpcMethodHandler:
    async def refuse(_requests: object, context: Context) -> None:
        await abort(context, refusal)

    # This kind of handler reads no message, whatever the method's own kind.
    return grpc.stream_stream_rpc_method_handler(refuse)
