"""Limits that the kernel of this machine really sets are found; needs the right to make a cgroup."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from service.cgroups import Cgroups

ROOT = Path("/sys/fs/cgroup")
MIB = 1 << 20


def make_group(stack, parent, name, limits):
    """Make a cgroup with limits, gone after the stack; skip the test where this machine does not allow that."""
    group = parent / name
    try:
        group.mkdir()
        stack.callback(group.rmdir)
        for file, value in limits.items():
            (group / file).write_text(value)
    except OSError as error:
        pytest.skip(f"no cgroup with limits can be made here: {error}")
    return group


@pytest.fixture
def limited():
    """The groups, of either version, of a process that may use one CPU and 300 MiB."""
    name = f"signet-test-{os.getpid()}"
    with ExitStack() as stack:
        if (ROOT / "cgroup.controllers").exists():
            limits = {"cpu.max": "100000 100000", "memory.max": str(300 * MIB)}
            yield [make_group(stack, ROOT, name, limits)]
        else:
            yield [
                make_group(stack, ROOT / "cpu", name, {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "100000"}),
                make_group(stack, ROOT / "memory", name, {"memory.limit_in_bytes": str(300 * MIB)}),
            ]


def test_a_process_in_a_real_cgroup_finds_its_limits(limited):
    def enter():
        for group in limited:
            (group / "cgroup.procs").write_text(str(os.getpid()))

    program = (
        "from service.memory_limit import memory; from service.threads import default_threads;"
        "print(default_threads(cores=40), memory().limit)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], preexec_fn=enter, capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.split() == ["1", str(300 * MIB)]


def test_groups_that_share_a_mount_are_found_in_either_order_of_their_names(tmp_path):
    membership = tmp_path / "self"
    membership.write_text("2:cpuacct,cpu:/box\n")

    assert list(Cgroups(tmp_path, membership).v1("cpu")) == [
        tmp_path / "cpuacct,cpu" / "box",
        tmp_path / "cpuacct,cpu",
        tmp_path / "cpu" / "box",
        tmp_path / "cpu",
    ]


def test_another_controller_is_no_group_of_this_one(tmp_path):
    membership = tmp_path / "self"
    membership.write_text("2:cpuset:/box\n0::/box\n")

    assert list(Cgroups(tmp_path, membership).v1("cpu")) == []
