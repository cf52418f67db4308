"""A region of POSIX shared memory, read and written through its file descriptor.

The obvious way, a mapping, would be deadly: when a client shrinks the object after it was registered, or when
``/dev/shm`` is full (64 MB in a container unless more is asked for) and a page was never written, the kernel ends a
process that touches the page with SIGBUS. ``preadv`` and ``pwrite`` report the same as a short count or an error. They
cost one copy more than a mapping that is read in place and about 1.7 times a copy out of one (15 MB: 3.8 ms against
2.2 ms, in: 4.3 ms against 2.3 ms), and they release the interpreter's lock. A private copy is needed anyway: a client
that changed its memory between check and run could else break what was checked, such as the lengths of BYTES elements.

Source: POSIX, mmap(), on SIGBUS for references beyond the end of an object; Linux, tmpfs, on a full file system.
"""

import mmap
import os
import stat
from typing import Final

from service import aligned
from service.errors import InternalError, InvalidArgumentError

DIRECTORY: Final = "/dev/shm"  # noqa: S108 - where Linux keeps POSIX shared memory
_MAX_NAME_BYTES: Final = 255
# Linux moves no more than this in one call; about what a message can hold, too.
_MAX_CALL_BYTES: Final = 0x7FFFF000
# The unit in which the kernel tells what is really there of a file.
_BLOCK_BYTES: Final = 512


_MIB: Final = 1 << 20


def room() -> str:
    """Return how large the place of shared memory is, and how much of it is free, for the log."""
    try:
        place = os.statvfs(DIRECTORY)
    except OSError as error:
        return f"{DIRECTORY} cannot be looked at: {error.strerror}"
    total, free = (blocks * place.f_frsize // _MIB for blocks in (place.f_blocks, place.f_bavail))
    return f"{free} MiB of the {total} MiB of {DIRECTORY} are free"


class SystemRegion:
    """A part of a POSIX shared-memory object. It stays usable after the object's name is unlinked.

    Attributes:
        name: the name by which requests refer to it.
        key: the object's name as the client wrote it, with or without slashes before it.
        offset: where the region starts in the object, in bytes; a multiple of the page size.
        byte_size: how long it is.
    """

    def __init__(self, name: str, key: str, offset: int, byte_size: int) -> None:
        """Open the object, which must hold the region.

        Raises:
            InternalError: the object cannot be opened; the status is Triton's.
            InvalidArgumentError: the region is not a part of the object.
        """
        self.name = name
        self.key = key
        self.offset = offset
        self.byte_size = byte_size
        self._descriptor = _open(key)
        try:
            self._check(os.fstat(self._descriptor))
        except BaseException:
            os.close(self._descriptor)
            raise

    def __repr__(self) -> str:
        return f"SystemRegion({self.name!r}, key={self.key!r}, offset={self.offset}, byte_size={self.byte_size})"

    def _check(self, status: os.stat_result) -> None:
        what = f"failed to register shared memory region '{self.name}'"
        if not stat.S_ISREG(status.st_mode):
            raise InternalError(f"Unable to open shared memory region: '{self.key}': it is no shared-memory object")
        if self.byte_size < 1:
            raise InvalidArgumentError(f"{what}: its byte size is {self.byte_size}")
        if self.offset < 0 or self.offset + self.byte_size > status.st_size:
            raise InvalidArgumentError(
                f"{what}: invalid args: offset {self.offset} + byte size {self.byte_size} is outside the "
                f"{status.st_size} bytes of '{self.key}'"
            )
        if self.offset % mmap.PAGESIZE:
            raise InvalidArgumentError(f"{what}: offset {self.offset} is no multiple of the page size {mmap.PAGESIZE}")

    def read(self, offset: int, size: int) -> memoryview:
        """Copy bytes out of the region, into memory that TensorFlow takes as it is.

        Raises:
            InvalidArgumentError: the object was shrunk meanwhile, or is mostly a hole.
        """
        # An object may be of any size without memory behind it, and would make the server's own memory run out.
        if size > _MAX_CALL_BYTES and size > os.fstat(self._descriptor).st_blocks * _BLOCK_BYTES:
            raise InvalidArgumentError(
                f"{size} bytes of shared memory region '{self.name}' were never written, at least in part; so many are "
                "read only when all of them are there"
            )
        data = aligned.allocate(size).data
        filled = 0
        while filled < size:
            part = data[filled : filled + _MAX_CALL_BYTES]
            read = os.preadv(self._descriptor, [part], self.offset + offset + filled)
            if not read:
                raise InvalidArgumentError(self._shrunk())
            filled += read
        return data.toreadonly()

    def write(self, offset: int, data: memoryview) -> None:
        """Copy bytes into the region.

        Raises:
            InternalError: the object was shrunk meanwhile, or there is no memory left for it.
        """
        position = self.offset + offset
        # Writing beyond the end would make the object grow again.
        if position + len(data) > os.fstat(self._descriptor).st_size:
            raise InternalError(self._shrunk())
        while data:
            try:
                written = os.pwrite(self._descriptor, data[:_MAX_CALL_BYTES], position)
            except OSError as error:
                raise InternalError(
                    f"cannot write to shared memory region '{self.name}': {error.strerror} (how full is {DIRECTORY}?)"
                ) from error
            position += written
            data = data[written:]

    def _shrunk(self) -> str:
        size = os.fstat(self._descriptor).st_size
        return (
            f"the object '{self.key}' of shared memory region '{self.name}' was shrunk to {size} bytes after it was "
            f"registered with offset {self.offset} and byte size {self.byte_size}"
        )

    def close(self) -> None:
        """Let go of the object."""
        os.close(self._descriptor)


def _open(key: str) -> int:
    """Open the object of a key for reading and writing, without ever leaving the directory of shared memory."""
    what = f"Unable to open shared memory region: '{key}'"
    name = key.lstrip("/")
    if not name or name in (".", "..") or "/" in name or "\0" in name or len(os.fsencode(name)) > _MAX_NAME_BYTES:
        raise InternalError(
            f"{what}: a key is the name of a shared-memory object, 1 to {_MAX_NAME_BYTES} bytes, which may "
            "have slashes before it and none inside"
        )
    try:
        return os.open(f"{DIRECTORY}/{name}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise InternalError(
            f"{what}: there is no such object here. Client and server must share {DIRECTORY}: in containers, run them "
            "in one pod with an emptyDir of medium Memory mounted there, or in the host's IPC namespace"
        ) from error
    except OSError as error:
        raise InternalError(
            f"{what}: {error.strerror}. The server runs as user {os.geteuid()} and must be allowed to read and write it"
        ) from error
