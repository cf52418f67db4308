"""Opening, reading and writing POSIX shared-memory objects, also those that change under the server."""

import mmap
import os
import socket
import uuid

import numpy as np
import pytest

from service import aligned
from service.errors import InternalError, InvalidArgumentError
from service.system_region import SystemRegion
from tests.memory_objects import DIRECTORY, memory_objects

PAGE = mmap.PAGESIZE


@pytest.fixture
def make():
    with memory_objects() as making:
        yield making


@pytest.fixture
def entry():
    """A free path among the shared-memory objects, also when the tests run twice at a time."""
    path = DIRECTORY / f"signet_test_{uuid.uuid4().hex}"
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def region(make):
    """A region of one page that starts after the first page of its object, and the object."""
    memory = make(3 * PAGE)
    opened = SystemRegion("r", memory.key, PAGE, PAGE)
    yield opened, memory
    opened.close()


def refusal(error, key, offset=0, byte_size=1):
    with pytest.raises(error) as caught:
        SystemRegion("r", key, offset, byte_size)
    return str(caught.value)


# Opening. --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_the_slash_of_a_key_may_be_left_out_or_doubled(make, slashes):
    memory = make(8)
    region = SystemRegion("r", slashes + memory.key[1:], 0, 8)

    assert region.read(0, 8) == bytes(8)
    region.close()


@pytest.mark.parametrize(
    "key",
    [
        "", "/", ".", "..", "/..", "/../etc/hostname", "../etc/hostname", "/a/b", "a/../b", "//etc/hostname", "a\0b",
        "/" + 256 * "k", "k" * 100_000, 128 * "\u00e9",
    ],
)  # fmt: skip
def test_a_key_that_could_leave_the_directory_is_refused(key):
    assert "a key is the name of a shared-memory object" in refusal(InternalError, key)


def test_a_key_of_the_greatest_length_is_only_missing():
    assert "no such object" in refusal(InternalError, "/" + 255 * "k")


def test_a_missing_object_is_named_with_the_usual_cause():
    text = refusal(InternalError, "/signet_test_missing")

    assert text.startswith("Unable to open shared memory region: '/signet_test_missing'")
    assert "Client and server must share /dev/shm" in text


def test_a_symbolic_link_is_not_followed(entry, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    entry.symlink_to(tmp_path / "secret")

    assert "Unable to open" in refusal(InternalError, entry.name)


def test_a_directory_is_refused(entry):
    entry.mkdir()
    try:
        assert "Unable to open" in refusal(InternalError, entry.name)
    finally:
        entry.rmdir()


def test_a_pipe_is_refused_and_nobody_waits_for_its_other_end(entry):
    os.mkfifo(entry)

    assert "it is no shared-memory object" in refusal(InternalError, entry.name)


def test_a_socket_is_refused(entry):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(entry))

        assert "Unable to open" in refusal(InternalError, entry.name)


@pytest.mark.parametrize(
    ("offset", "byte_size"),
    [
        (0, 0), (0, 3 * PAGE + 1), (PAGE, 2 * PAGE + 1), (3 * PAGE, 1), (4 * PAGE, 1), (100, 1), (1, PAGE),
        (0, 2**64 - 1), (PAGE, 2**64 - PAGE), (PAGE, 2**64 - 1), (2**64 - PAGE, PAGE), (2**63, 2**63),
    ],
)  # fmt: skip
def test_a_region_that_is_no_part_of_its_object_is_refused_and_the_object_closed(make, offset, byte_size):
    memory = make(3 * PAGE)

    assert "failed to register shared memory region 'r'" in refusal(InvalidArgumentError, memory.key, offset, byte_size)
    assert memory.open_descriptors() == 0


def test_an_object_may_be_open_several_times(make):
    memory = make(8)
    regions = [SystemRegion(name, memory.key, 0, 8) for name in "ab"]
    regions[0].close()
    memory.write_bytes(b"12345678")

    assert regions[1].read(0, 8) == b"12345678"
    regions[1].close()


# Reading and writing. --------------------------------------------------------------------------------------------


def test_offsets_count_from_the_start_of_the_region(region):
    opened, memory = region
    memory.write_bytes(b"abc", offset=PAGE + 5)

    assert opened.read(5, 3) == b"abc"
    opened.write(1, memoryview(b"xy"))
    assert memory.content()[PAGE : PAGE + 8] == b"\0xy\0\0abc"


def test_what_is_read_is_what_the_client_wrote_last(region):
    opened, memory = region
    for text in (b"one", b"two"):
        memory.write_bytes(text, offset=PAGE)

        assert opened.read(0, 3) == text


@pytest.mark.parametrize("offset", [0, 5])
def test_what_is_read_lies_where_tensorflow_takes_it_as_it_is(region, offset):
    data = region[0].read(offset, PAGE)

    assert aligned.is_aligned(np.frombuffer(data, np.uint8))
    assert data.readonly


def test_nothing_is_read_or_written_for_no_bytes(region):
    opened, memory = region
    opened.write(0, memoryview(b""))

    assert opened.read(0, 0) == b""
    assert memory.content() == bytes(3 * PAGE)


def test_an_unlinked_object_stays_usable(region):
    opened, memory = region
    memory.path.rename(memory.path.with_suffix(".away"))
    try:
        opened.write(0, memoryview(b"here"))

        assert opened.read(0, 4) == b"here"
    finally:
        memory.path.with_suffix(".away").rename(memory.path)


@pytest.mark.parametrize("left", [0, PAGE, 2 * PAGE - 1])
def test_reading_a_shrunk_object_is_an_error(region, left):
    opened, memory = region
    memory.resize(left)

    with pytest.raises(InvalidArgumentError, match=f"was shrunk to {left} bytes after it was registered"):
        opened.read(0, PAGE)


def test_writing_to_a_shrunk_object_is_an_error_and_does_not_let_it_grow(region):
    opened, memory = region
    memory.resize(PAGE + 3)

    with pytest.raises(InternalError, match="was shrunk to"):
        opened.write(0, memoryview(b"four"))
    assert memory.content() == bytes(PAGE + 3)


def test_what_is_left_of_a_shrunk_object_stays_usable(region):
    opened, memory = region
    memory.resize(PAGE + 3)
    opened.write(0, memoryview(b"ok!"))

    assert opened.read(0, 3) == b"ok!"


def test_an_object_may_be_larger_than_one_system_call_moves(make, monkeypatch):
    monkeypatch.setattr("service.system_region._MAX_CALL_BYTES", 5)
    memory = make(16)
    region = SystemRegion("r", memory.key, 0, 16)
    region.write(1, memoryview(b"abcdefghijklm"))

    assert region.read(0, 16) == b"\0abcdefghijklm\0\0"
    region.close()


def test_closing_leaves_no_descriptor(make):
    memory = make(8)
    region = SystemRegion("r", memory.key, 0, 8)
    assert memory.open_descriptors() == 1

    region.close()
    assert memory.open_descriptors() == 0
