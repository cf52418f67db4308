"""Real POSIX shared-memory objects, made with the stock client's functions."""

import os
import uuid
from contextlib import contextmanager
from pathlib import Path

import tritonclient.utils.shared_memory as triton_memory

DIRECTORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps them


class MemoryObject:
    """One object that is full of zeros at first; its key begins with a slash."""

    def __init__(self, byte_size):
        self.key = f"/signet_test_{uuid.uuid4().hex}"
        self.path = DIRECTORY / self.key[1:]
        self._handle = triton_memory.create_shared_memory_region(self.key, self.key, byte_size, create_only=True)
        self._own_descriptors = self._descriptors()

    def write(self, *arrays, offset=0):
        """Put arrays in, one after the other, as clients do."""
        triton_memory.set_shared_memory_region(self._handle, arrays, offset)

    def write_bytes(self, data, offset=0):
        with self.path.open("r+b") as file:
            file.seek(offset)
            file.write(data)

    def array(self, dtype, shape, offset=0):
        """Return a copy of what is there as an array."""
        return triton_memory.get_contents_as_numpy(self._handle, dtype, shape, offset).copy()

    def content(self):
        return self.path.read_bytes()

    def resize(self, byte_size):
        os.truncate(self.path, byte_size)

    def open_descriptors(self):
        """Return how many descriptors of this process lead to the object, beside those of the client's functions."""
        return self._descriptors() - self._own_descriptors

    def _descriptors(self):
        return sum(_target(each).startswith(str(self.path)) for each in Path("/proc/self/fd").iterdir())

    def destroy(self):
        triton_memory.destroy_shared_memory_region(self._handle)


def _target(descriptor):
    try:
        return str(descriptor.readlink())
    except FileNotFoundError:
        return ""


@contextmanager
def memory_objects():
    """Give a function that makes objects; all of them are gone after the block."""
    made = []

    def make(byte_size):
        made.append(MemoryObject(byte_size))
        return made[-1]

    try:
        yield make
    finally:
        for each in made:
            each.destroy()
