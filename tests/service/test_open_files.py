"""The server may have as many connections as the system allows it, whatever the shell's soft limit is."""

import subprocess
import sys


def test_soft_limit_of_open_files_is_raised_to_the_hard_one():
    source = (
        "import resource; from service.open_files import raise_open_files_limit; "
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 128)); raise_open_files_limit(); "
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    run = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True)

    assert run.stdout == "(128, 128)\n"
