"""Options of the server to channel arguments of gRPC."""

from typing import Final

from service.settings import ResponseCompression, Settings

# gRPC's core picks the algorithm of a level among those that the client of each call accepts.
_COMPRESSION_LEVELS: Final = {
    ResponseCompression.NONE: 0,
    ResponseCompression.LOW: 1,
    ResponseCompression.MEDIUM: 2,
    ResponseCompression.HIGH: 3,
}

_PING_TIMEOUT_MS: Final = 60_000
"""After which gRPC closes a connection on which a ping of its own, such as one that measures it, was not answered."""


def channel_options(settings: Settings) -> list[tuple[str, int]]:
    """Return the channel arguments that a grpcio server gets from its options."""
    options = [
        ("grpc.keepalive_time_ms", settings.grpc_keepalive_time),
        ("grpc.keepalive_timeout_ms", settings.grpc_keepalive_timeout),
        ("grpc.keepalive_permit_without_calls", int(settings.grpc_keepalive_permit_without_calls)),
        ("grpc.http2.max_pings_without_data", settings.grpc_http2_max_pings_without_data),
        # The name of the argument has no "recv", unlike the option.
        ("grpc.http2.min_ping_interval_without_data_ms", settings.grpc_http2_min_recv_ping_interval_without_data),
        ("grpc.http2.max_ping_strikes", settings.grpc_http2_max_ping_strikes),
        ("grpc.default_compression_level", _COMPRESSION_LEVELS[settings.grpc_infer_response_compression_level]),
    ]
    # While another ping is on its way gRPC sends none for keepalive, so a client that died with calls would be kept
    # for that ping's own time.
    silence_ms = settings.grpc_keepalive_time + settings.grpc_keepalive_timeout
    if silence_ms < _PING_TIMEOUT_MS:
        options.append(("grpc.http2.ping_timeout_ms", silence_ms))
    # gRPC knows no number that means never, Triton's option does.
    if settings.grpc_max_connection_age:
        options.append(("grpc.max_connection_age_ms", settings.grpc_max_connection_age))
    if settings.grpc_max_connections:
        options.append(("grpc.max_allowed_incoming_connections", settings.grpc_max_connections))
    if settings.grpc_max_receive_message_length:
        options.append(("grpc.max_receive_message_length", settings.grpc_max_receive_message_length))
    if settings.grpc_max_connection_age_grace:
        options.append(("grpc.max_connection_age_grace_ms", settings.grpc_max_connection_age_grace))
    return options
