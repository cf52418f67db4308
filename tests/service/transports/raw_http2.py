"""A bare HTTP/2 client: pings until it is thrown out, which no gRPC client shows, and metadata that none sends."""

import asyncio
import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _GOAWAY = 0, 1, 3, 4, 6, 7
_ACK = _END_STREAM = 1
_END_HEADERS = 4


def _frame(kind, flags=0, payload=b"", stream=0):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


async def _read_frame(reader):
    head = await reader.readexactly(9)
    payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
    return head[3], head[4], payload


async def send_pings(address, count, interval_s=0.0):
    """Connect and send pings one after the other, each when the one before was answered and the interval passed.

    Returns:
        How many were answered, and what the server said when it threw the client out, or None.
    """
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(_PREFACE + _frame(_SETTINGS))
        for number in range(count):
            writer.write(_frame(_PING, payload=struct.pack(">Q", number)))
            while True:
                kind, flags, payload = await _read_frame(reader)
                if kind == _GOAWAY:
                    return number, payload[8:].decode()
                if (kind, flags) == (_PING, _ACK):
                    break
                if (kind, flags) == (_PING, 0):
                    writer.write(_frame(_PING, _ACK, payload))
            await asyncio.sleep(interval_s)
        return count, None
    finally:
        writer.close()
        await writer.wait_closed()


def _header(name, value):
    """Write a header for HPACK as it is, in neither table; both parts are shorter than 127 bytes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


async def call(address, path, message, metadata=(), *, is_compressed=False):
    """Make one unary call over a connection of its own and wait for its end; the answer is not read.

    Args:
        address: host and port.
        path: of the method.
        message: serialized.
        metadata: pairs of bytes, sent as they are.
        is_compressed: whether the message is said to be.
    """
    head = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", path.encode()), (b":authority", b"test")]
    head += [(b"te", b"trailers"), (b"content-type", b"application/grpc"), *metadata]
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(_PREFACE + _frame(_SETTINGS))
        writer.write(_frame(_HEADERS, _END_HEADERS, b"".join(_header(*each) for each in head), stream=1))
        writer.write(_frame(_DATA, _END_STREAM, struct.pack(">BI", is_compressed, len(message)) + message, stream=1))
        while True:
            kind, flags, _ = await _read_frame(reader)
            if kind == _RST_STREAM or (kind == _HEADERS and flags & _END_STREAM):
                return
    finally:
        writer.close()
        await writer.wait_closed()
