"""A crash leaves no core dump, unless that is allowed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Some machines allow no core dumps at all; there nothing could be seen.
CRASH = """
import os, resource
from service.core_dumps import forbid_core_dumps
hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
if {forbid}:
    forbid_core_dumps()
os.abort()
"""


def dumps(directory, *, forbid):
    """Whether a process that crashes leaves a core dump."""
    pid = os.posix_spawn(
        "/bin/sh",
        ["sh", "-c", 'cd "$1" && exec "$2" -c "$3"', "sh", str(directory), sys.executable, CRASH.format(forbid=forbid)],
        {**os.environ, "PYTHONPATH": str(Path.cwd())},
    )
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    return os.WCOREDUMP(status)


def test_forbidden_core_dump_is_not_written(tmp_path):
    if not dumps(tmp_path, forbid=False):
        pytest.skip("this machine writes no core dumps")

    assert not dumps(tmp_path, forbid=True)


def test_limit_below_ours_stays():
    source = (
        "import resource; from service.core_dumps import forbid_core_dumps; "
        "resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); forbid_core_dumps(); "
        "print(resource.getrlimit(resource.RLIMIT_CORE))"
    )
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout == "(0, 0)\n"
