"""Memory that glibc keeps goes back to the system when the process rests, and under load only if it is much."""

import platform
import subprocess
import sys

import pytest

from service.allocator import KEPT_AT_REST, KEPT_AT_WORK, LOOK_S, LULL_S, REST, FreeMemory

MIB = 1 << 20
BLOCKS, BLOCK_MIB = 10, 10

# Blocks of large messages, each with a piece behind it that stays, as that of a cache would.
FREE_AND_GIVE_BACK = f"""
import ctypes, resource, threading
from pathlib import Path
from service.allocator import LOOK_S, FreeMemory
from service.glibc import GlibcHeap, keep_freed_memory, limit_arenas

limit_arenas(2)
keep_freed_memory()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / {MIB}

def filled(size):
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    return block

free_memory = FreeMemory(GlibcHeap.here(), 0.0, 0.0)
before = resident_mib()
blocks = []

def allocate():
    for _ in range({BLOCKS}):
        blocks.append(filled({BLOCK_MIB} << 20))
        filled(100_000)
    blocks.append(filled({BLOCK_MIB} << 20))  # the last one has nothing behind it

thread = threading.Thread(target=allocate)
thread.start()
thread.join()
free_memory.look(LOOK_S, 0.0)
used = resident_mib() - before
for block in blocks:
    libc.free(block)
kept = resident_mib() - before
free_memory.look(2 * LOOK_S, 0.0)
print(used, kept, resident_mib() - before)
"""


class FakeHeap:
    """Counts how often it was looked at and trimmed; ``needed`` bytes of it stay when it is trimmed."""

    def __init__(self):
        self.resident = self.needed = 100 * MIB
        self.freed_during_trim = 0
        self.looks = self.trims = 0

    def spare(self):
        self.looks += 1
        return self.resident

    def trim(self):
        self.trims += 1
        self.resident = self.needed + self.freed_during_trim
        self.freed_during_trim = 0


class Process:
    """A process that works or rests, looked at every so often."""

    def __init__(self):
        self.heap = FakeHeap()
        self.now_s, self.cpu_s = 1000.0, 50.0
        self.free_memory = FreeMemory(self.heap, self.now_s, self.cpu_s)

    def passes(self, seconds, load):
        """Let time pass, at a share of one CPU, with a look now and then."""
        ends_at = self.now_s + seconds
        while self.now_s < ends_at:
            self.now_s += LOOK_S
            self.cpu_s += LOOK_S * load
            self.free_memory.look(self.now_s, self.cpu_s)


@pytest.fixture
def process():
    return Process()


WORK, IDLE = 2 * REST, REST / 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have allocators of their own")
def test_memory_of_freed_large_blocks_goes_back_to_the_system_and_nothing_that_is_used():
    command = [sys.executable, "-c", FREE_AND_GIVE_BACK]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    used, kept, left = map(float, run.stdout.split())
    assert used > (BLOCKS + 1) * BLOCK_MIB
    assert kept > BLOCKS * BLOCK_MIB * 0.9
    assert left < 2


def test_what_was_freed_goes_back_at_the_first_look_at_rest(process):
    process.passes(LOOK_S, WORK)
    process.heap.resident += KEPT_AT_REST + 1
    process.passes(LULL_S / 2, WORK)
    assert process.heap.trims == 0
    process.passes(LOOK_S, IDLE)

    assert process.heap.trims == 1
    assert process.heap.resident == process.heap.needed


def test_little_is_kept_for_what_comes_next(process):
    process.heap.resident += KEPT_AT_REST
    process.passes(2 * LULL_S, IDLE)

    assert process.heap.trims == 0


def test_much_goes_back_under_load_too_but_at_most_once_a_minute(process):
    for minute in range(1, 4):
        process.heap.resident += KEPT_AT_WORK + 1
        process.passes(LULL_S, WORK)
        assert process.heap.trims == minute


def test_what_a_process_under_load_may_want_again_stays(process):
    process.heap.resident += KEPT_AT_WORK
    process.passes(3 * LULL_S, WORK)

    assert process.heap.trims == 0


def test_what_stays_after_it_was_given_back_is_not_asked_for_again(process):
    process.heap.resident += 2 * KEPT_AT_REST
    process.heap.needed = process.heap.resident
    process.passes(5 * LULL_S, IDLE)

    assert process.heap.trims == 1


def test_what_is_needed_beside_it_is_asked_for_once_more_and_then_left(process):
    process.heap.resident += 3 * KEPT_AT_REST
    process.heap.needed += 2 * KEPT_AT_REST
    process.passes(5 * LULL_S, IDLE)

    assert process.heap.trims == 2
    assert process.heap.resident == process.heap.needed


@pytest.mark.parametrize("before", [0, 5 * MIB, 200 * MIB])
def test_what_was_freed_during_a_trim_goes_back_at_the_next_look(process, before):
    process.heap.resident += KEPT_AT_REST + 1 + before
    process.heap.freed_during_trim = 200 * MIB
    process.passes(3 * LOOK_S, IDLE)

    assert process.heap.resident == process.heap.needed


def test_process_that_goes_on_to_rest_is_looked_at_once_a_minute(process):
    process.passes(2 * LULL_S, IDLE)
    looks = process.heap.looks
    process.passes(10 * LULL_S, IDLE)

    assert process.heap.looks - looks == 10


def test_looks_in_between_change_nothing(process):
    process.heap.resident += KEPT_AT_REST + 1
    looks = process.heap.looks
    for _ in range(100):
        process.free_memory.look(process.now_s + LOOK_S / 2, process.cpu_s)

    assert process.heap.looks == looks


def test_nothing_is_done_where_nothing_can_be_given_back():
    FreeMemory(None, 0.0, 0.0).look(LULL_S, 0.0)
