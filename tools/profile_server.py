"""Tell where the CPU time of a running server goes, per request and stage, while clients load it.

    python -m tools.profile_server PID --grpc 127.0.0.1:8001 [--seconds 10] [--py-spy PROGRAM]

The CPU time of each thread is read from /proc before and after. Meanwhile py-spy samples what the threads of Python
are at, and the time of each is shared out over the stages as its samples are. The time of threads without Python (those
of the native transport, TensorFlow's own) stands under their names. The server's counters say how many requests it was.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tritonclient.grpc import InferenceServerClient

STAGES: Final[Mapping[str, Sequence[str]]] = {
    "receive calls": ("relay.py *", "native_front.py _take*", "native_front.py _check", "grpcio.py *"),
    "read the message": ("servicer.py infer", "wire.py *", "codec.py __init__", "recognition.py *"),
    "find the plan, view the inputs": ("plans.py *",),
    "take on": ("data_plane.py submit", "data_plane.py _submit", "admission.py enter"),
    "queue": ("scheduler.py submit", "burst.py submit"),
    "take a batch": ("scheduler.py _next*", "scheduler.py _decide", "scheduler.py help", "scheduler.py _work"),
    "join": ("processor.py _execute",),
    "run the model": ("model_version.py _run",),
    "divide": ("processor.py *",),
    "count": ("model_statistics.py *", "model_version.py _record_run", "scheduler.py _run_batch", "admission.py leave"),
    "answer": ("data_plane.py *", "servicer.py *", "codec.py *"),
    "send": ("native_front.py answer", "native_front.py finish", "completions.py *"),
}
"""The frames that belong to a stage, file and function; the innermost one that is named here counts."""

_OTHER: Final = "other Python"
_FRAME: Final = re.compile(r"(?:.*\.)?(?P<function>[^.]+) \((?:.*/)?(?P<file>[^/:]+)(?::\d+)?\)")
_THREAD: Final = re.compile(r"thread \((?P<id>\d+)\)")
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_RATE_HZ: Final = 500


@dataclass(frozen=True)
class Thread:
    """What the kernel tells of a thread."""

    name: str
    cpu_s: float


def stage_of(stack: Sequence[str]) -> str:
    """Return the stage of a stack of frames as py-spy writes them, the innermost last."""
    for frame in reversed(stack):
        read = _FRAME.fullmatch(frame)
        if read is None:
            continue
        place = f"{read['file']} {read['function']}"
        for stage, places in STAGES.items():
            if any(place == known or (known.endswith("*") and place.startswith(known[:-1])) for known in places):
                return stage
    return _OTHER


def samples(folded: str) -> dict[int, Counter[str]]:
    """Return the samples of each stage by thread, from what ``py-spy record --format raw --threads`` writes."""
    found: dict[int, Counter[str]] = defaultdict(Counter)
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        thread, *frames = stack.split(";")
        told = _THREAD.match(thread)
        if told is not None:
            found[int(told["id"])][stage_of(frames)] += int(count)
    return found


def share_out(threads: Mapping[int, Thread], found: Mapping[int, Counter[str]]) -> dict[str, float]:
    """Return the CPU seconds of each stage, and of the threads without Python by their names without numbers."""
    seconds: dict[str, float] = defaultdict(float)
    for number, thread in threads.items():
        counts = found.get(number)
        if not counts:
            seconds[f"threads {re.sub(r'[-_/]?[0-9]+$', '', thread.name)}"] += thread.cpu_s
            continue
        for stage, count in counts.items():
            seconds[stage] += thread.cpu_s * count / counts.total()
    return seconds


def threads_of(pid: int) -> dict[int, Thread]:
    """Return the threads of a process."""
    threads = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        user, system = rest.split()[11:13]
        threads[int(task.name)] = Thread(name, (int(user) + int(system)) * _TICK_S)
    return threads


def _answered(address: str) -> int:
    with InferenceServerClient(address) as client:
        models = client.get_inference_statistics().model_stats
    return sum(each.inference_stats.success.count for each in models if ":" not in each.name)


def _sample(program: str, pid: int, seconds: int) -> str:
    with tempfile.NamedTemporaryFile("r", suffix=".folded") as file:
        command = [program, "record", "--pid", str(pid), "--duration", str(seconds), "--rate", str(_RATE_HZ)]
        options = ["--format", "raw", "--threads", "--output", file.name]
        subprocess.run([*command, *options], check=True, capture_output=True)  # noqa: S603 - what the caller names
        return file.read()


def main() -> None:
    """Profile as the command line says and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pid", type=int)
    parser.add_argument("--grpc", default="127.0.0.1:8001", help="address of the server")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--py-spy", default="py-spy", help="the program py-spy, which is no dependency of the project")
    options = parser.parse_args()
    before, answered_before = threads_of(options.pid), _answered(options.grpc)
    found = samples(_sample(options.py_spy, options.pid, options.seconds))
    after, answered = threads_of(options.pid), _answered(options.grpc) - answered_before
    if not answered:
        raise SystemExit("no request was answered meanwhile")
    idle = Thread("", 0.0)
    spent = {
        number: Thread(thread.name, thread.cpu_s - before.get(number, idle).cpu_s) for number, thread in after.items()
    }
    seconds = share_out(spent, found)
    sys.stdout.write(f"{answered} requests, {sum(seconds.values()) / answered * 1e6:.1f} us of CPU each\n")
    for stage, used_s in sorted(seconds.items(), key=lambda each: -each[1]):
        sys.stdout.write(f"{used_s / answered * 1e6:8.1f} us  {stage}\n")


if __name__ == "__main__":
    main()
