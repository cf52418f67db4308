"""The registry of regions, and the windows of a request: names, bounds, and who closes what when."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.caller import Caller
from service.errors import (
    AlreadyExistsError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnimplementedError,
)
from service.shared_memory import NO_MEMORY, Regions, RequestMemory, WindowName
from service.system_region import SystemRegion
from tests.memory_objects import memory_objects
from tests.service.tensors import deterministic

LOCAL, REMOTE = Caller(is_local=True), Caller(is_local=False)


@pytest.fixture
def make():
    with memory_objects() as making:
        yield making


@pytest.fixture
def memory(make):
    return make(256)


def register(regions, memory, name, byte_size=64, offset=0):
    regions.register(name, partial(SystemRegion, name, memory.key, offset, byte_size))


def names(regions, name=""):
    return {region.name for region in regions.registered(SystemRegion, name)}


# Registering and forgetting. -------------------------------------------------------------------------------------


def test_regions_are_found_by_name_or_all_together(memory):
    regions = Regions()
    register(regions, memory, "a")
    register(regions, memory, "b", 128)

    assert (names(regions), names(regions, "a"), names(regions, "c")) == ({"a", "b"}, {"a"}, set())
    assert memory.open_descriptors() == 2


def test_a_name_in_use_is_taken_whatever_the_region(memory):
    regions = Regions()
    register(regions, memory, "a")

    with pytest.raises(AlreadyExistsError, match="shared memory region 'a' already in manager"):
        register(regions, memory, "a", 128)
    assert [region.byte_size for region in regions.registered(SystemRegion)] == [64]


def test_an_empty_name_is_refused_because_it_means_all(memory):
    with pytest.raises(InvalidArgumentError, match="its name is empty"):
        register(Regions(), memory, "")


def test_a_name_that_is_too_long_to_be_kept_is_refused_and_not_repeated(memory):
    with pytest.raises(InvalidArgumentError, match="its name has 1025 characters; at most 1024") as caught:
        register(Regions(), memory, "n" * 1025)

    assert "nnn" not in str(caught.value)


def test_a_region_that_cannot_be_opened_leaves_the_name_free(memory):
    regions = Regions()
    with pytest.raises(InternalError):
        regions.register("a", partial(SystemRegion, "a", "/signet_test_missing", 0, 1))
    register(regions, memory, "a")

    assert names(regions) == {"a"}


def test_unregistering_closes_one_or_all_and_minds_no_unknown_name(memory):
    regions = Regions()
    for name in "abc":
        register(regions, memory, name)
    regions.unregister(SystemRegion, "b")
    regions.unregister(SystemRegion, "b")
    assert (names(regions), memory.open_descriptors()) == ({"a", "c"}, 2)

    regions.unregister(SystemRegion)
    assert (names(regions), memory.open_descriptors()) == (set(), 0)


def test_regions_of_another_kind_are_not_forgotten(memory):
    class OtherRegion(SystemRegion):
        pass

    regions = Regions()
    register(regions, memory, "a")
    regions.unregister(OtherRegion)
    regions.unregister(OtherRegion, "a")

    assert names(regions) == {"a"}


def test_regions_never_take_all_descriptors(memory):
    regions = Regions(max_open=2)
    register(regions, memory, "a")
    register(regions, memory, "b")
    used = regions.lease("a")
    regions.unregister(SystemRegion, "a")
    with pytest.raises(ResourceExhaustedError, match="2 regions are open"):
        register(regions, memory, "c")

    regions.release(used)
    register(regions, memory, "c")
    assert names(regions) == {"b", "c"}


# Leases. ---------------------------------------------------------------------------------------------------------


def test_a_region_in_use_is_closed_by_its_last_user(memory):
    regions = Regions()
    register(regions, memory, "a")
    first, second = regions.lease("a"), regions.lease("a")
    regions.unregister(SystemRegion, "a")
    assert names(regions) == set()
    with pytest.raises(NotFoundError):
        regions.lease("a")

    regions.release(first)
    assert second.read(0, 2) == b"\0\0"
    assert memory.open_descriptors() == 1
    regions.release(second)
    assert memory.open_descriptors() == 0
    assert repr(regions) == "Regions(registered=0, open=0, in_use=0)"


def test_a_new_region_of_the_same_name_is_another(make):
    regions = Regions()
    old, new = make(8), make(8)
    old.write_bytes(b"old")
    new.write_bytes(b"new")
    register(regions, old, "a", 8)
    used = regions.lease("a")
    regions.unregister(SystemRegion, "a")
    register(regions, new, "a", 8)

    assert used.read(0, 3) == b"old"
    assert regions.lease("a").read(0, 3) == b"new"
    regions.release(used)
    assert (old.open_descriptors(), new.open_descriptors()) == (0, 1)


def test_a_region_that_is_given_back_stays_registered(memory):
    regions = Regions()
    register(regions, memory, "a")
    regions.release(regions.lease("a"))

    assert regions.lease("a").read(0, 1) == b"\0"


def test_many_threads_register_use_and_unregister_without_a_leak(memory):
    memory.write_bytes(b"data")
    regions = Regions()
    start = threading.Barrier(8)

    def work(number):
        name = f"region {number % 3}"
        start.wait()
        for _ in range(200):
            request = RequestMemory(regions)
            with suppress(AlreadyExistsError):
                register(regions, memory, name)
            with suppress(NotFoundError):
                assert request.window(WindowName(name, 0, 4)).read() == b"data"
            regions.unregister(SystemRegion, name)
            request.release()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(work, range(8))) == [None] * 8
    finally:
        sys.setswitchinterval(interval)
    assert repr(regions) == "Regions(registered=0, open=0, in_use=0)"
    assert memory.open_descriptors() == 0


# Windows. --------------------------------------------------------------------------------------------------------


def test_a_window_is_a_part_of_its_region(make):
    memory = make(8192)
    regions = Regions()
    register(regions, memory, "a", 64, offset=4096)
    memory.write_bytes(b"inside", 4096 + 8)
    window = RequestMemory(regions).window(WindowName("a", 8, 6))

    assert (window.read(), len(window)) == (b"inside", 6)
    window.write(memoryview(b"out"))
    assert memory.content()[4096 + 8 : 4096 + 14] == b"outide"


@pytest.mark.parametrize(
    ("offset", "byte_size", "text"),
    [
        (64, 0, "Invalid offset for"), (64, 1, "Invalid offset for"), (300, 1, "Invalid offset for"),
        (-1, 1, "Invalid offset for"), (-64, 64, "Invalid offset for"), (-(2**63), 2**63 - 1, "Invalid offset for"),
        (2**63 - 1, 2**63 - 1, "Invalid offset for"), (0, 65, "Invalid offset + byte size for"),
        (63, 2, "Invalid offset + byte size for"), (0, -1, "Invalid offset + byte size for"),
        (1, 2**63 - 1, "Invalid offset + byte size for"), (32, -32, "Invalid offset + byte size for"),
    ],
)  # fmt: skip
def test_a_window_outside_its_region_is_refused(memory, offset, byte_size, text):
    regions = Regions()
    register(regions, memory, "a")

    with pytest.raises(InvalidArgumentError) as caught:
        RequestMemory(regions).window(WindowName("a", offset, byte_size))
    assert str(caught.value).startswith(f"{text} shared memory region: 'a'")


_numbers = st.integers(-3, 70) | st.integers(-(2**63), 2**63 - 1)


@deterministic
@given(offset=_numbers, byte_size=_numbers)
def test_a_window_is_found_if_and_only_if_all_its_bytes_are_in_the_region(offset, byte_size):
    region = _Bytes(64)
    regions = Regions()
    regions.register("a", lambda: region)
    request = RequestMemory(regions)
    try:
        assert len(request.window(WindowName("a", offset, byte_size)).read()) == byte_size
        found = True
    except InvalidArgumentError:
        found = False
    request.release()

    assert found == (0 <= offset < 64 and byte_size >= 0 and offset + byte_size <= 64)


class _Bytes:
    """A region that answers only what is inside."""

    name = "a"

    def __init__(self, byte_size):
        self.byte_size = byte_size

    def read(self, offset, size):
        content = bytes(self.byte_size)[offset : offset + size]
        assert offset >= 0
        assert len(content) == size
        return content


def test_release_gives_all_regions_back_also_those_whose_windows_were_refused(memory):
    regions = Regions()
    register(regions, memory, "a")
    request = RequestMemory(regions)
    request.window(WindowName("a", 0, 64))
    request.window(WindowName("a", 1, 1))
    with pytest.raises(InvalidArgumentError):
        request.window(WindowName("a", 0, 65))
    regions.unregister(SystemRegion)
    assert repr(regions) == "Regions(registered=0, open=1, in_use=1)"

    request.release()
    request.release()
    assert repr(regions) == "Regions(registered=0, open=0, in_use=0)"


# Who may use it. -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "local", "remote"),
    [
        ({}, True, False),
        ({"allow_remote": True}, True, True),
        ({"enabled": False}, False, False),
        ({"enabled": False, "allow_remote": True}, False, False),
    ],
)
def test_callers_on_this_host_are_let_in_and_others_on_request(options, local, remote):
    regions = Regions(**options)

    assert (regions.is_open_to(LOCAL), regions.is_open_to(REMOTE)) == (local, remote)
    for caller, allowed in ((LOCAL, local), (REMOTE, remote)):
        if allowed:
            regions.check_open_to(caller)
        else:
            with pytest.raises(UnimplementedError, match="--allow-"):
                regions.check_open_to(caller)


def test_for_a_caller_without_shared_memory_no_region_exists():
    with pytest.raises(NotFoundError, match="Unable to find shared memory region: 'a'"):
        NO_MEMORY.window(WindowName("a", 0, 1))
