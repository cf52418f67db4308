"""``python -m clients.gpu_check``: start the server on this machine's GPUs and check what docs/devices.md promises.

A stock client asks a server of its own, and a table tells what was promised and what was seen. The exit code is 0 only
if all that could be checked is as promised. With ``--device cpu:0,1`` it runs without a GPU; what only one can show is
then not checked.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from tritonclient.grpc import InferenceServerClient

from clients.gpu_check import answer_checks, cuda_memory_check, memory_checks, overlap_checks
from clients.gpu_check.finding import Check, Row, carry_out, to_table
from clients.gpu_check.gpus import used_mib
from clients.gpu_check.plan import CPU_SIZES, GPU_SIZES, write_repository
from clients.gpu_check.subject import Subject
from clients.server_process import ServerProcess, ServerProcessError

_START_TIMEOUT_S: Final = 300.0
_STOP_TIMEOUT_S: Final = 60.0
_WIDTH_OF_LOGS: Final = 150

CHECKS: Final = (
    Check("device found", "the log names each GPU and how much memory may be taken", answer_checks.device_is_logged),
    Check("placement", "runs are on the chosen devices, and each gets some", answer_checks.runs_are_placed),
    Check(
        "answers", "those of TensorFlow on the CPU, 0.5 % of the largest value apart", answer_checks.answers_are_right
    ),
    Check("bits", "every device answers with the same bits", answer_checks.bits_are_the_same),
    Check("state", "what is written is one on all devices", answer_checks.state_is_one),
    Check("weights", "one copy on each device, for all signatures and workers", memory_checks.there_is_one_copy),
    Check("limit", "TensorFlow keeps to --gpu-memory, CUDA's own beside it", memory_checks.limit_holds),
    Check("too large", "a clear error, and the server goes on", memory_checks.too_large_is_refused),
    Check("load again", "what an unload gives up is used again", memory_checks.memory_is_used_again),
    Check("unload", "main memory goes back", memory_checks.main_memory_goes_back),
    Check(
        "XLA on", "each allowed size once on each device, none after ready", answer_checks.each_size_is_compiled_once
    ),
    Check("XLA auto", "no more after ready", answer_checks.parts_are_compiled_before_ready),
    Check("mixed precision", "the log tells the largest difference", answer_checks.precision_is_told),
    Check("overlap", "two runs are in progress at a time", overlap_checks.two_runs_meet),
    Check("two workers", "get more through than one", overlap_checks.two_workers_get_more_through),
    Check("CUDA shared memory", "inputs and outputs in it", cuda_memory_check.tensors_pass_in_gpu_memory),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m clients.gpu_check", description=__doc__)
    parser.add_argument(
        "--device", default="gpu", help="as for signet serve: gpu (default), gpu:0,1 or, without a GPU, cpu:0,1"
    )
    device = parser.parse_args(arguments).device
    with tempfile.TemporaryDirectory(prefix="signet-gpu-check-") as temporary:
        try:
            rows = check(device, Path(temporary))
        except ServerProcessError as error:
            print(f"\nNothing could be checked. {error}", file=sys.stderr)
            return 1
    title = f"Signet on {device}; {_versions()}"
    Console(width=None if sys.stdout.isatty() else _WIDTH_OF_LOGS).print(to_table(title, rows))
    return conclude(rows)


def check(device: str, directory: Path) -> list[Row]:
    """Export the models, serve them on a device and look at everything.

    Raises:
        ServerProcessError: the server does not start, or not on this device.
    """
    is_gpu = device.startswith("gpu")
    sizes = GPU_SIZES if is_gpu else CPU_SIZES
    exports, repository = directory / "exports", directory / "models"
    command = [sys.executable, "-m", "clients.gpu_check.export", str(exports)]
    command += ["--width", str(sizes.width), "--block-mib", str(sizes.block_mib)]
    command += ["--too-large-mib", str(sizes.too_large_mib)]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run(command, check=True, env=environment)
    write_repository(repository, exports)
    with np.load(exports / "answers.npz") as loaded:
        answers = dict(loaded)
    os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the numbers of nvidia-smi
    idle_mib = used_mib() if is_gpu else {}
    options = ("--model-control-mode", "explicit", "--load-model", "network", "--device", device)
    with ServerProcess(repository, *options, "--gpu-memory", str(sizes.limit_mib)) as process:
        process.wait_until_ready(_START_TIMEOUT_S)
        with InferenceServerClient(process.address) as client:
            subject = Subject(process, client, is_gpu, sizes, answers, idle_mib)
            rows = [carry_out(each, subject) for each in CHECKS]
        process.stop(_STOP_TIMEOUT_S)
    return rows


def conclude(rows: Sequence[Row]) -> int:
    """Say what it comes to and return the exit code."""
    bad = [row.check.name for row in rows if row.finding.ok is False]
    left_out = sum(row.finding.ok is None for row in rows)
    print(f"{sum(row.finding.ok is True for row in rows)} as promised, {left_out} not checked, {len(bad)} otherwise.")
    if bad:
        print(f"Not as promised: {', '.join(bad)}.")
    return 1 if bad else 0


def _versions() -> str:
    found = [f"Python {platform.python_version()}"]
    for package in ("signet-server", "tensorflow", "tensorflow-cpu"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


if __name__ == "__main__":
    sys.exit(main())
