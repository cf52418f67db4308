"""What comes and goes, breaks and is mended in people's repositories while the server polls them."""

import os
import shutil

import pytest

from service.errors import NotFoundError, UnavailableError
from tests.service.sites import DATA, FAILED, NO_VERSION, UNAVAILABLE, cut, open_site, served

NOBODY = 65534


@pytest.fixture
def site(export, caplog):
    with open_site(export, caplog) as made:
        yield made


@pytest.fixture
def unreadable():
    """Takes all rights from a path, and goes on as a user whom that stops; root it would not. Returns what ends it."""
    taken, was_root = [], os.geteuid() == 0

    def give_back():
        if was_root:
            os.seteuid(0)
        for path in taken:
            path.chmod(0o755)

    def take(path):
        taken.append(path)
        path.chmod(0)
        if was_root:
            os.seteuid(NOBODY)
        return give_back

    yield take
    give_back()


def test_model_that_cannot_be_read_for_a_while_is_loaded_when_it_can(site, unreadable):
    site.put()
    make_readable = unreadable(site.root / "clip")
    site.poll(6)
    assert site.states() == NO_VERSION
    assert "cannot be read: Permission denied" in site.reasons()
    (line,) = site.log()
    assert "'clip' cannot be loaded" in line
    assert "Permission denied" in line
    make_readable()
    site.poll()

    assert site.states() == served(1)
    assert site.answer() == 1
    assert site.log() == []


def test_path_that_appears_later_is_loaded_then(site):
    site.poll(6)
    assert site.states() == {}
    site.put()
    site.poll()

    assert site.answer() == 1
    assert site.log() == []


def test_copy_that_is_not_whole_yet_is_tried_again_until_it_is(site):
    path = site.put()
    whole = shutil.copy(path / DATA, site.root / "..whole")
    cut(path / DATA)
    site.poll(6)
    assert site.states() == FAILED
    (line,) = site.log()
    assert "a file is cut or damaged" in line
    assert line.endswith(site.reasons().strip())
    shutil.copy(whole, path / DATA)
    site.poll()

    assert site.states() == served(1)
    assert site.log() == []


def test_older_version_serves_while_a_newer_one_is_not_whole(site):
    site.put()
    site.poll()
    cut(site.put("clip/2") / "saved_model.pb")
    site.poll(6)

    assert site.answer() == 1
    assert site.states() == served(1) | {("clip", "2"): UNAVAILABLE}
    (line,) = site.log()
    assert "model 'clip' version 2 is unavailable" in line
    assert line.endswith(site.reasons().strip())


def test_version_that_is_overwritten_in_place_serves_on_and_is_not_reloaded_from_half_a_file(site):
    path = site.put()
    site.poll()
    cut(path / DATA)
    site.poll(6)

    assert site.answer() == 1
    assert site.states() == served(1)
    assert site.reasons() == ""
    (line,) = site.log()
    assert "version 1 was not reloaded, the one before is still served" in line
    assert "a file is cut or damaged" in line


def test_version_that_is_removed_while_it_serves_is_unloaded(site):
    site.put()
    site.put("bert/1")
    site.poll()
    shutil.rmtree(site.root / "clip/1")
    site.poll(1)
    assert site.answer() == 1, "one look is not enough"
    site.poll(1)

    assert site.states() == served(1, model="bert")
    with pytest.raises(NotFoundError, match="'clip' is not found"):
        site.repository.find("clip", "")
    assert site.log() == []


def test_latest_version_that_is_removed_gives_way_to_the_one_before(site):
    site.put("clip/1")
    site.put("clip/2")
    site.poll()
    assert site.answer() == 2
    shutil.rmtree(site.root / "clip/2")
    site.poll()

    assert site.answer() == 1
    assert site.states() == served(1) | {("clip", "2"): UNAVAILABLE}
    assert site.reasons().strip() == "unloaded"
    with pytest.raises(UnavailableError, match="'clip' version 2 is not at ready state"):
        site.repository.find("clip", "2")
    assert site.log() == []


def test_link_that_is_swapped_brings_what_it_leads_to(site):
    site.put("..old/clip/1")
    site.put("..new/clip/2")
    (site.root / "..data").symlink_to("..old")
    (site.root / "clip").symlink_to("..data/clip")
    site.poll()
    assert site.answer() == 1
    (site.root / "..next").symlink_to("..new")
    (site.root / "..next").rename(site.root / "..data")
    site.poll()

    assert site.answer() == 2
    assert site.log() == []


def test_place_that_is_gone_as_a_whole_stops_nothing(site):
    site.put()
    site.poll()
    site.root.rename(aside := site.root.with_name(site.root.name + "-aside"))
    site.poll(4)
    answered = site.answer()
    aside.rename(site.root)
    site.poll(4)

    assert answered == site.answer() == 1
    assert site.states() == served(1)
    assert site.reasons() == ""


def test_configuration_that_breaks_while_the_model_serves_is_told_once(site):
    site.put()
    site.poll()
    site.write("clip/config.pbtxt", "max_batch_size: many")
    site.poll(6)

    assert site.answer() == 1
    assert site.states() == served(1)
    (line,) = site.log()
    assert "config.pbtxt:1:17" in line
    site.write("clip/config.pbtxt", "max_batch_size: 2")
    site.poll()
    assert site.repository.find("clip", "").loaded.find_signature(None).max_batch_size == 2


def test_two_directories_of_one_number_leave_the_version_that_serves_alone(site):
    site.put("clip/7")
    site.poll()
    site.put("clip/007")
    site.poll(6)

    assert site.answer() == 7
    assert site.states() == served(7)
    (line,) = site.log()
    assert "mean the same version" in line
