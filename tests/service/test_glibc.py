"""The C library's heap is told what to do, unless its own variables do."""

import os
import platform
import re
import subprocess
import sys

import pytest

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


def arenas(threads, **variables):
    """Return how many arenas 12 threads come to use where the process is told that so many work at a time."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
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
