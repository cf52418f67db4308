"""What memory is left is read from the cgroup, and a load that cannot fit is announced."""

import logging

import pytest

from service.memory_limit import Memory, log_memory, memory, warn_if_too_large
from tests.service.recorded_cgroups import RECORDINGS, lay_out

GIB = 1 << 30
LIMIT = "the container's memory limit"


@pytest.fixture
def node(tmp_path):
    """A machine of 64 GiB with 32 GiB left."""
    path = tmp_path / "meminfo"
    path.write_text("MemTotal: 67108864 kB\nMemFree: 1 kB\nMemAvailable: 33554432 kB\n")
    return path


@pytest.mark.parametrize(
    ("recording", "expected"),
    [
        ("v1 container without a name space of its own", Memory(4 * GIB, 1 * GIB, LIMIT)),
        ("v1 node, a service in a slice", Memory(8 * GIB, 1 * GIB, LIMIT)),
        ("v1 unlimited, version 2 mounted beside it", Memory(64 * GIB, 32 * GIB, "this machine")),
        ("v2 container with a name space of its own", Memory(8 * GIB, 2 * GIB, LIMIT)),
        ("v2 nested: the pod's limit is tighter than the container's", Memory(2 * GIB, 3 * GIB // 2, LIMIT)),
        ("v2 unlimited", Memory(64 * GIB, 32 * GIB, "this machine")),
        ("no cgroups", Memory(64 * GIB, 32 * GIB, "this machine")),
    ],
)
def test_the_limit_with_least_left_counts(tmp_path, node, recording, expected):
    assert memory(lay_out(RECORDINGS[recording], tmp_path), node) == expected


def test_cached_files_that_can_be_dropped_are_not_in_use(tmp_path, node):
    files = {"self": "0::/\n", "memory.max": "1000", "memory.current": "900", "memory.stat": "inactive_file 2000\n"}

    assert memory(lay_out(files, tmp_path), node) == Memory(1000, 0, LIMIT)


def test_more_than_the_limit_in_use_leaves_nothing():
    assert Memory(100, 150, LIMIT).left == 0


def test_a_machine_that_tells_nothing_has_no_known_memory(tmp_path):
    assert memory(lay_out({}, tmp_path), tmp_path / "no meminfo") is None


@pytest.fixture
def saved_model(tmp_path):
    """A SavedModel's files of 3 + 5 MiB, an index and an asset beside them."""
    (tmp_path / "variables").mkdir()
    (tmp_path / "assets").mkdir()
    for name, mib in (("saved_model.pb", 3), ("variables/variables.data-00000-of-00001", 5), ("assets/words", 9)):
        (tmp_path / name).write_bytes(bytes(mib << 20))
    (tmp_path / "variables/variables.index").write_bytes(b"x")
    return tmp_path


def test_a_load_that_cannot_fit_is_announced_with_all_sizes(saved_model, caplog):
    warn_if_too_large(saved_model, model="clip", version=7, room=Memory(100 << 20, 93 << 20, LIMIT))

    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    for text in ("'clip' version 7", "8 MiB on disk", "7 MiB are left of the 100 MiB", LIMIT):
        assert text in record.getMessage()


def test_a_load_that_may_fit_is_not(saved_model, caplog):
    warn_if_too_large(saved_model, model="clip", version=7, room=Memory(100 << 20, 92 << 20, LIMIT))

    assert not caplog.records


def test_the_log_tells_what_memory_there_is(caplog):
    with caplog.at_level(logging.INFO, "service.memory_limit"):
        log_memory()

    assert "MiB left of the" in caplog.text
