"""What the driver tells of GPUs, by its program ``nvidia-smi``."""

import shutil
import subprocess
from typing import Final

_QUERY: Final = ("--query-gpu=index,memory.used", "--format=csv,noheader,nounits")
_TIMEOUT_S: Final = 30


def used_mib() -> dict[int, float]:
    """Return the memory in use by number of the GPU; nothing where the program is not there or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    answer = subprocess.run([program, *_QUERY], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    return parse(answer.stdout) if answer.returncode == 0 else {}


def parse(text: str) -> dict[int, float]:
    """Read lines such as ``0, 431``; a GPU that does not tell its memory is left out."""
    found = {}
    for line in text.splitlines():
        number, _, mib = (part.strip() for part in line.partition(","))
        if number.isdecimal() and mib.isdecimal():
            found[int(number)] = float(mib)
    return found
