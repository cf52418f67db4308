"""Raw HTTP/2 for clients that do what no gRPC library does."""

import socket
import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\4\0\0\0\0\0"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: the connection ends with RST instead of FIN

_HEADERS, _DATA, _END_STREAM, _END_HEADERS = 1, 0, 1, 4


def connect(server):
    """Return a connection to a server process."""
    host, _, port = server.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def frame(kind, flags, payload):
    """Return a frame of stream 1."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + b"\0\0\0\1" + payload


def request_head():
    """Return a HEADERS frame that begins a ModelInfer call; plain HPACK literals."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/inference.GRPCInferenceService/ModelInfer",
        ":authority": "a",
        "content-type": "application/grpc",
        "te": "trailers",
    }
    block = b"".join(
        b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )
    return frame(_HEADERS, _END_HEADERS, block)


def data_frame(data):
    """Return a part of a message that is not its end."""
    return frame(_DATA, 0, data)


def infer_frames(message):
    """Return the frames of a whole ModelInfer call with a serialized message below 16 kB."""
    return request_head() + frame(_DATA, _END_STREAM, b"\0" + struct.pack(">I", len(message)) + message)
