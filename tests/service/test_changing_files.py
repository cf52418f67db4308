"""What files mean is read again when they change; broken ones are told of once and change nothing."""

import os

import pytest

from service.changing_files import ChangingFiles
from service.errors import LoadError


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def number(contents):
    return [int(content) for content in contents]


@pytest.fixture
def files(tmp_path):
    for name, text in (("a", "1"), ("b", "2")):
        (tmp_path / name).write_text(text)
    return [tmp_path / "a", tmp_path / "b"]


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def numbers(files, clock):
    return ChangingFiles(files, number, clock)


def replace(path, text):
    """Write a file anew, as careful programs do."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


def test_files_are_read_again_when_one_changes(numbers, files, clock, caplog):
    caplog.set_level("INFO", logger="service")
    assert numbers.current() == [1, 2]

    replace(files[1], "3")
    clock.now += 1

    assert numbers.current() == [1, 3]
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_files_are_looked_at_once_a_second_at_most(numbers, files, clock):
    replace(files[0], "3")
    clock.now += 0.99

    assert numbers.current() == [1, 2]


def test_unchanged_files_are_not_read_again(files, clock):
    reads = []
    numbers = ChangingFiles(files, reads.append, clock)
    clock.now += 1
    numbers.current()

    assert len(reads) == 1


@pytest.mark.parametrize("broken", ["x", None])
def test_broken_files_are_told_of_once_and_what_was_read_before_stays(numbers, files, clock, caplog, broken):
    if broken is None:
        files[0].unlink()
    else:
        replace(files[0], broken)
    for _ in range(3):
        clock.now += 1
        assert numbers.current() == [1, 2]
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert str(files[0]) in record.getMessage()

    replace(files[0], "5")
    clock.now += 1

    assert numbers.current() == [5, 2]


@pytest.mark.parametrize("broken", ["x", None])
def test_broken_files_at_the_start_are_an_error_that_names_them(files, broken):
    if broken is None:
        files[0].unlink()
    else:
        files[0].write_text(broken)

    with pytest.raises(LoadError, match=str(files[0])):
        ChangingFiles(files, number)


def test_pipe_in_place_of_a_file_keeps_nobody_waiting(numbers, files, clock, caplog):
    numbers.current()
    files[0].unlink()
    os.mkfifo(files[0])
    clock.now += 1

    assert numbers.current() == [1, 2]
    assert "is no file; what was read before stays in force" in caplog.text
