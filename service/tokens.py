"""Bearer tokens: which ones a file knows, and whether a caller has one of them.

A line of the file is a token, or ``sha256:`` and the token's SHA-256 in hexadecimal, so that who reads the file cannot
call. Empty lines, and lines that begin with ``#``, mean nothing.
"""

import codecs
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from service.changing_files import ChangingFiles

_HASHED: Final = b"sha256:"
_HASH_BYTES: Final = 32


class Tokens:
    """The tokens of one file, read again when it changes. Any thread may ask. In memory are their hashes alone."""

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            LoadError: it cannot be read, holds no token, a line is no hash although it begins like one, or no caller
                could send what is in it.
        """
        self._hashes: Final = ChangingFiles([path], _read)

    def know(self, token: str) -> bool:
        """Return whether a token is one of the file's; how long it takes does not tell how near it came."""
        digest = hashlib.sha256(token.encode()).digest()
        matches = [hmac.compare_digest(digest, known) for known in self._hashes.current()]
        return any(matches)


def _read(contents: Sequence[bytes]) -> tuple[bytes, ...]:
    lines = [line.strip() for line in contents[0].removeprefix(codecs.BOM_UTF8).splitlines()]
    hashes = tuple(_hash(line, number) for number, line in enumerate(lines, 1) if line and not line.startswith(b"#"))
    if not hashes:
        raise ValueError("the file holds no token")
    return hashes


def _hash(line: bytes, number: int) -> bytes:
    if not (line.isascii() and line.decode().isprintable()):
        raise ValueError(f"line {number}: metadata hold printable ASCII characters only, and so must a token")
    if not line.startswith(_HASHED):
        return hashlib.sha256(line).digest()
    try:
        digest = bytes.fromhex(line.removeprefix(_HASHED).decode("ascii"))
    except ValueError:
        digest = b""
    if len(digest) != _HASH_BYTES:
        raise ValueError(f"line {number}: expected sha256: and 64 hexadecimal digits")
    return digest
