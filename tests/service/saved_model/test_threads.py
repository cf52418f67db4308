"""The number of threads follows the CPU limit of the cgroup."""

import pytest

from service.saved_model.threads import default_threads, v1_limit, v2_limit


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("400000 100000", 4.0), ("50000", 0.5)]
)
def test_v2_limit_is_quota_over_period(text, cpus):
    assert v2_limit(text) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1\n", None), ("250000\n", 2.5)])
def test_v1_limit_is_quota_over_period(quota, cpus):
    assert v1_limit(quota, "100000\n") == cpus


def threads(tmp_path, membership, files, cores=40):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    member = tmp_path / "membership"
    member.write_text(membership)
    return default_threads(tmp_path, member, cores)


def test_limit_of_a_container_with_a_name_space_of_its_own(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "400000 100000"}) == 4


def test_a_fraction_is_rounded_up(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "250000 100000"}) == 3
    assert threads(tmp_path, "0::/\n", {"cpu.max": "10000 100000"}) == 1


def test_the_tightest_ancestor_counts(tmp_path):
    files = {"pod/box/cpu.max": "max 100000", "pod/cpu.max": "200000 100000", "cpu.max": "800000 100000"}

    assert threads(tmp_path, "0::/pod/box\n", files) == 2


def test_v1_controllers_may_share_a_mount(tmp_path):
    files = {"cpu,cpuacct/box/cpu.cfs_quota_us": "300000", "cpu,cpuacct/box/cpu.cfs_period_us": "100000"}

    assert threads(tmp_path, "12:memory:/box\n4:cpu,cpuacct:/box\n", files) == 3


def test_without_a_limit_the_usable_cores_count(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "max 100000"}, cores=6) == 6


def test_a_machine_without_cgroups_uses_its_cores(tmp_path):
    assert default_threads(tmp_path, tmp_path / "none", 6) == 6


def test_never_more_than_the_usable_cores(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "4000000 100000"}, cores=8) == 8
