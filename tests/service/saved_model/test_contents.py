"""The same files are known by whichever path; equal ones by their bytes, which are read only where they may agree."""

import os
import shutil

import pytest

from service.saved_model.contents import Contents


@pytest.fixture
def model(tmp_path):
    for name in ("saved_model.pb", "variables/variables.index", "assets/words.txt", "config.pbtxt"):
        file = tmp_path / "model" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "model"


@pytest.fixture
def copy(model, tmp_path):
    return shutil.copytree(model, tmp_path / "copy")


@pytest.mark.parametrize("kind", ["path", "link to the directory", "links to the files"])
def test_same_files_are_known_by_any_path(model, tmp_path, kind):
    other = tmp_path / "other"
    if kind == "path":
        other = model / ".." / "model"
    elif kind == "link to the directory":
        other.symlink_to(model)
    else:
        shutil.copytree(model, other, copy_function=os.link)

    assert Contents(model).is_same_files(Contents(other))


def test_copy_is_equal_and_not_the_same(model, copy):
    assert not Contents(model).is_same_files(Contents(copy))
    assert Contents(model).is_equal(Contents(copy))


@pytest.mark.parametrize("name", ["saved_model.pb", "variables/variables.index", "assets/words.txt"])
@pytest.mark.parametrize("change", ["bytes", "size", "absence"])
def test_change_of_a_file_that_is_read_makes_a_difference(model, copy, name, change):
    before = Contents(copy)
    if change == "bytes":
        (copy / name).write_text(name.swapcase())
    elif change == "size":
        (copy / name).write_text(name * 2)
    else:
        (copy / name).unlink()

    assert not before.is_current()
    assert not Contents(model).is_equal(Contents(copy))


def test_file_beside_makes_no_difference(model, copy):
    before = Contents(copy)
    (copy / "config.pbtxt").write_text("max_batch_size: 7")
    (copy / "fingerprint.pb").touch()

    assert before.is_current()
    assert Contents(model).is_equal(Contents(copy))


def test_files_of_other_sizes_are_not_read(model, copy):
    (copy / "saved_model.pb").write_text("longer than before")
    one, other = Contents(model), Contents(copy)

    assert not one.is_equal(other)
    assert "digest" not in vars(one)
    assert "digest" not in vars(other)


def test_bytes_that_changed_since_they_were_seen_equal_nothing(model, copy):
    seen = Contents(model)
    (model / "saved_model.pb").write_text("SAVED_MODEL.PB")
    (copy / "saved_model.pb").write_text("SAVED_MODEL.PB")

    assert not Contents(copy).is_equal(seen)
    assert not seen.is_equal(seen)


def test_bytes_that_are_gone_equal_nothing(model, copy):
    seen = Contents(model)
    shutil.rmtree(model)

    assert not Contents(copy).is_equal(seen)
