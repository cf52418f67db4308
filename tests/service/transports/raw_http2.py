"""A bare HTTP/2 client that sends pings, to see what no gRPC client shows: whether the server throws it out."""

import asyncio
import struct

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS, _PING, _GOAWAY, _ACK = 4, 6, 7, 1


def _frame(kind, flags=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, 0) + payload


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
