"""The number of threads follows the CPU limit of the cgroup."""

import pytest

from service.threads import default_threads, v1_limit, v2_limit
from tests.service.recorded_cgroups import RECORDINGS, lay_out


@pytest.mark.parametrize(
    ("text", "cpus"), [("max 100000\n", None), ("150000 100000\n", 1.5), ("400000 100000", 4.0), ("50000", 0.5)]
)
def test_v2_limit_is_quota_over_period(text, cpus):
    assert v2_limit(text) == cpus


@pytest.mark.parametrize(("quota", "cpus"), [("-1\n", None), ("250000\n", 2.5)])
def test_v1_limit_is_quota_over_period(quota, cpus):
    assert v1_limit(quota, "100000\n") == cpus


def threads(tmp_path, membership, files, cores=40):
    return default_threads(lay_out({"self": membership, **files}, tmp_path), cores)


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("v1 container without a name space of its own", 3),
        ("v1 node, a service in a slice", 3),
        ("v1 unlimited, version 2 mounted beside it", 40),
        ("v2 container with a name space of its own", 4),
        ("v2 nested: the pod's limit is tighter than the container's", 2),
        ("v2 unlimited", 40),
        ("no cgroups", 40),
    ],
)
def test_threads_on_a_node_with_forty_cores(tmp_path, recording, expected):
    assert default_threads(lay_out(RECORDINGS[recording], tmp_path), cores=40) == expected


def test_a_fraction_is_rounded_up(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "250000 100000"}) == 3
    assert threads(tmp_path, "0::/\n", {"cpu.max": "10000 100000"}) == 1


def test_the_tightest_ancestor_counts(tmp_path):
    files = {"pod/box/cpu.max": "max 100000", "pod/cpu.max": "200000 100000", "cpu.max": "800000 100000"}

    assert threads(tmp_path, "0::/pod/box\n", files) == 2


def test_never_more_than_the_usable_cores(tmp_path):
    assert threads(tmp_path, "0::/\n", {"cpu.max": "4000000 100000"}, cores=8) == 8
