"""Passes a connection on to a server behind this one, byte for byte."""

import asyncio
from typing import Final

_CHUNK_BYTES: Final = 2**16


async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, start: bytes) -> None:
    """Connect to a Unix socket and carry bytes both ways until either side has no more.

    Args:
        reader: of the connection.
        writer: likewise; the caller closes it.
        path: of the socket; of an abstract one it begins with a NUL.
        start: what was read already.

    Raises:
        OSError: the socket cannot be reached.
    """
    inner_reader, inner_writer = await asyncio.open_unix_connection(path)
    inner_writer.write(start)
    ways = [asyncio.create_task(_carry(reader, inner_writer)), asyncio.create_task(_carry(inner_reader, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        inner_writer.transport.abort()
        await asyncio.gather(*ways, return_exceptions=True)  # a broken connection is an end like any other


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
