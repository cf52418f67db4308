"""Files of callers lie only where they may, can be read by nobody else, and are gone when nobody needs them."""

import stat

import pytest

from service.errors import InvalidArgumentError
from service.uploads import Uploads, check_paths

GRAPH = "1/model.savedmodel/saved_model.pb"


@pytest.fixture
def uploads(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Uploads()
    yield made
    made.close()
    assert list(tmp_path.iterdir()) == []


def modes(directory):
    return {stat.S_IMODE(path.stat().st_mode) for path in (directory, *directory.parents[:1])}


@pytest.mark.parametrize(
    "paths",
    [
        [GRAPH],
        ["1/saved_model.pb", "1/variables/variables.index", "1/variables/variables.data-00000-of-00001"],
        ["0/saved_model.pb", "00000123/saved_model.pb"],
        ["1/.hidden", "1/..data", "1/a\\b", "1/\n", "1/é", "1/" + "x" * 255],
        ["1/a", "1/ab", "1/b/a"],
        [],
    ],
)
def test_files_in_version_directories_may_be_brought(paths):
    check_paths(paths)


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("", "relative"),
        ("/etc/passwd", "relative"),
        ("//1/x", "relative"),
        ("1//x", "relative"),
        ("1/x/", "relative"),
        ("1/", "relative"),
        ("./1/x", "relative"),
        ("1/./x", "relative"),
        ("..", "relative"),
        ("../1/x", "relative"),
        ("1/../../x", "relative"),
        ("1/x/..", "relative"),
        ("1", "version directory"),
        ("config.pbtxt", "version directory"),
        ("labels.txt", "version directory"),
        ("one/x", "version directory"),
        ("-1/x", "version directory"),
        ("1x/x", "version directory"),
        ("\u0661/x", "version directory"),
        (f"{2**63}/x", "version directory"),
        ("~/x", "version directory"),
        ("1/x\0", "NUL"),
        ("1\0/x", "NUL"),
        ("1/" + "x" * 256, "too long"),
        ("1/" + "é" * 128, "too long"),
        ("1" + "/x" * 600, "too long"),
    ],
)
def test_path_that_could_lead_elsewhere_or_is_no_part_of_a_version_is_refused(path, fault):
    with pytest.raises(InvalidArgumentError, match=fault) as caught:
        check_paths([GRAPH, path])
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("paths", [["1/a", "1/a/b"], ["1/a/b/c/d", "1/a/b"]])
def test_file_that_would_be_the_directory_of_another_is_refused(paths):
    for given in (paths, paths[::-1]):
        with pytest.raises(InvalidArgumentError, match="below another"):
            check_paths(given)


def test_files_are_what_was_brought_and_nothing_else(uploads):
    with uploads.write({GRAPH: b"graph", "1/empty": b""}) as upload:
        found = {str(path.relative_to(upload.directory)) for path in upload.directory.rglob("*") if path.is_file()}
        assert found == {GRAPH, "1/empty"}
        assert (upload.directory / GRAPH).read_bytes() == b"graph"


def test_nobody_else_can_enter(uploads):
    with uploads.write({GRAPH: b"graph"}) as upload:
        assert modes(upload.directory) == {0o700}


def test_files_are_a_model_of_the_name_that_was_asked_for(uploads):
    with uploads.write({GRAPH: b"graph", "7/saved_model.pb": b"graph"}) as upload:
        source = upload.source("clip")

        assert (source.name, sorted(source.versions), source.config_path) == ("clip", [1, 7], None)


def test_files_stay_until_the_last_holder_leaves(uploads):
    first = uploads.write({GRAPH: b"first"})
    with first:
        second = uploads.write({GRAPH: b"second"})
        with first, second:
            assert (first.directory / GRAPH).read_bytes() == b"first"
        assert first.directory.exists()
        assert not second.directory.exists()
    assert not first.directory.exists()


def test_files_that_cannot_be_written_leave_nothing(uploads, tmp_path):
    with pytest.raises(OSError, match=r"Not a directory|File exists"):
        uploads.write({"1/a": b"", "1/a/b": b""})

    (root,) = tmp_path.iterdir()
    assert list(root.iterdir()) == []


def test_close_removes_also_what_is_held(uploads, tmp_path):
    uploads.write({GRAPH: b"graph"}).__enter__()
    uploads.close()

    assert list(tmp_path.iterdir()) == []


def test_nothing_is_made_before_the_first_files_come(uploads, tmp_path):
    uploads.close()

    assert list(tmp_path.iterdir()) == []
