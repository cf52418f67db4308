"""A change of the files on disk is seen without reading them; what did not change is not taken for one."""

import os

import pytest

from service.file_identity import files_below, files_beside, last_change_below, last_change_beside


@pytest.fixture
def model(tmp_path):
    """A version directory behind a link, as Kubernetes mounts volumes."""
    for name in ("one", "two"):
        (tmp_path / name / "variables").mkdir(parents=True)
        (tmp_path / name / "saved_model.pb").write_bytes(b"graph")
        (tmp_path / name / "variables" / "data").write_bytes(b"weights")
    (tmp_path / "current").symlink_to("one")
    return tmp_path


def overwrite(path):
    path.write_bytes(b"GRAPH")
    os.utime(path, ns=(1, 1))


def replace_by_rename(path):
    stat = path.stat()
    new = path.with_name("new")
    new.write_bytes(path.read_bytes())
    os.utime(new, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    new.rename(path)


def append(path):
    stat = path.stat()
    path.write_bytes(path.read_bytes() + b"more")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def relink(path):
    link = path.parents[1] / "current"
    link.unlink()
    link.symlink_to("two")


@pytest.mark.parametrize("change", [overwrite, replace_by_rename, append, relink, os.remove])
def test_change_of_a_file_is_seen_through_a_link(model, change):
    before = files_below(model / "current")
    change(model / "one" / "saved_model.pb")

    assert files_below(model / "current") != before


def test_change_of_a_nested_file_is_seen(model):
    before = files_below(model / "one")
    overwrite(model / "one" / "variables" / "data")

    assert files_below(model / "one") != before


def test_reading_changes_nothing(model):
    before = files_below(model / "one")
    (model / "one" / "saved_model.pb").read_bytes()

    assert files_below(model / "one") == before
    assert {name for name, *_ in before} == {"saved_model.pb", "variables/data"}


def test_links_that_lead_in_a_circle_end(model):
    (model / "one" / "back").symlink_to("..")

    assert "back/two/saved_model.pb" in {name for name, *_ in files_below(model / "one")}


def test_what_is_not_there_has_no_files(model):
    (model / "one" / "broken").symlink_to("nowhere")

    assert files_below(model / "nope") == files_beside(model / "nope") == frozenset()
    assert "broken" not in {name for name, *_ in files_below(model / "one")}


def test_files_beside_leave_directories_out(model):
    (model / "config.pbtxt").touch()

    assert {name for name, *_ in files_beside(model)} == {"config.pbtxt"}


# When something was changed last. --------------------------------------------------------------------------------


def settle(path):
    """Return the time of the last change, once the clock of the file system has moved on from it."""
    probe = path / "probe"
    changed = last_change_below(path / "one")
    while True:
        probe.touch()
        if probe.stat().st_mtime > changed:
            return changed


def preserve(path):
    """Copy over a file with its old times, as ``cp -p`` does."""
    stat = path.stat()
    path.write_bytes(b"graph")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        overwrite,
        replace_by_rename,
        append,
        preserve,
        lambda path: path.unlink(),
        lambda path: path.parent.joinpath("new").touch(),
    ],
)
@pytest.mark.parametrize("name", ["saved_model.pb", "variables/data"])
def test_every_change_of_a_tree_is_dated(model, name, change):
    before = settle(model)
    change(model / "one" / name)

    assert last_change_below(model / "current") > before


def test_move_of_a_tree_is_no_change_of_it(model):
    before = settle(model)
    (model / "one").rename(model / "three")

    assert last_change_below(model / "three") == before


def test_files_beside_are_dated_without_those_below(model):
    before = last_change_beside(model / "one")
    settle(model)
    (model / "one" / "variables" / "data").write_bytes(b"new")
    assert last_change_beside(model / "one") == before
    (model / "one" / "labels.txt").touch()
    assert last_change_beside(model / "one") > before


def test_what_is_not_there_was_never_changed(tmp_path):
    assert last_change_below(tmp_path / "nope") == 0
    assert last_change_beside(tmp_path / "nope") == 0
