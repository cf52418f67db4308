"""The C library's heap is told what to do, unless its own variables do."""

import os
import platform
import re
import subprocess
import sys

import pytest

from service import glibc

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have heaps of their own")

MANY_THREADS = """
import ctypes, sys, threading
from service.glibc import limit_arenas

limit_arenas(int(sys.argv[1]))
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(12)

def allocate():
    together.wait()
    libc.malloc(5000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.stdout.flush()
libc.malloc_info(0, ctypes.c_void_p.in_dll(libc, "stdout"))
libc.fflush(None)
"""


def environment_without_variables():
    return {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}


def arenas(threads, **variables):
    """Return how many arenas 12 threads come to use where the process is told that so many work at a time."""
    environment = environment_without_variables()
    command = [sys.executable, "-c", MANY_THREADS, str(threads)]
    run = subprocess.run(command, env=environment | variables, capture_output=True, text=True, timeout=60, check=True)
    return len(re.findall("<heap nr=", run.stdout))


@pytest.mark.parametrize(("threads", "expected"), [(1, 1), (4, 1), (5, 2), (12, 3)])
def test_four_threads_share_an_arena(threads, expected):
    assert arenas(threads) == expected


@pytest.mark.parametrize(
    "variable", [("MALLOC_ARENA_MAX", "5"), ("GLIBC_TUNABLES", "glibc.malloc.arena_max=5")], ids=lambda each: each[0]
)
def test_what_the_librarys_own_variables_say_stays(variable):
    assert arenas(1, **dict([variable])) == 5


@pytest.mark.parametrize(
    ("name", "value", "is_kept"),
    [
        ("SIGNET_ANY", "1", True),
        ("MALLOC_MMAP_THRESHOLD_", "1048576", False),
        ("MALLOC_TRIM_THRESHOLD_", "131072", False),
        ("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=1048576", False),
    ],
)
def test_freed_memory_is_kept_unless_somebody_has_set_the_allocator(name, value, is_kept):
    program = """
import runpy, sys
runpy.run_path(sys.argv[1])["keep_freed_memory"]()
def rss_mb():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS:")).split()[1]) / 1024
before = rss_mb()
blocks = [bytearray(20 << 20) for _ in range(5)]
del blocks
print(rss_mb() - before > 50)
"""
    command = [sys.executable, "-c", program, glibc.__file__]
    environment = {**environment_without_variables(), name: value}
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)

    assert run.stdout == f"{is_kept}\n"
