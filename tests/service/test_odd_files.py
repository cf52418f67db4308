"""Model repositories whose files are odd: pipes, another export's variables, no rights, names that are no UTF-8."""

import os
import shutil
import socket
import subprocess
import threading

import pytest

from service.model_places import ModelPlaces
from tests.service.serving import WAIT_S
from tests.service.sites import DATA, FAILED, UNAVAILABLE, Site, open_site, served

GRAPH = "saved_model.pb"
INDEX = "variables/variables.index"
NOBODY = 65534


@pytest.fixture
def site(export, caplog):
    with open_site(export, caplog) as made:
        yield made


@pytest.fixture
def without_rights():
    """Takes all rights from a file, and goes on as a user whom that stops; root it would not."""
    was_root = os.geteuid() == 0

    def take(file):
        file.chmod(0)
        if was_root:
            os.seteuid(NOBODY)

    yield take
    if was_root:
        os.seteuid(0)


def bind_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


KINDS = {"named pipe": os.mkfifo, "socket": bind_socket, "directory": os.mkdir}


def within_time(do):
    """Do something that loads, but wait for it no longer than a load that is not stuck can take."""
    loads = threading.Thread(target=do, daemon=True)
    loads.start()
    loads.join(WAIT_S)
    assert not loads.is_alive(), "the load is stuck"


def start(site):
    """Load all models, if that ends."""
    within_time(site.start)


def assert_fails(site, *told):
    assert site.states() == FAILED
    (line,) = site.log()
    assert line.startswith("model 'clip' version 1 is unavailable: ")
    for text in told:
        assert text in site.reasons()
        assert text in line


@pytest.mark.parametrize("file", [GRAPH, DATA, INDEX])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_file_is_a_load_error_that_names_it_and_is_not_opened(site, kind, file):
    place = site.put() / file
    place.unlink()
    KINDS[kind](place)
    start(site)

    assert_fails(site, f"{place}: is a {kind}, not a file")


CONFIG = "max_batch_size: 2"
LABELS = 'output { name: "y" data_type: TYPE_FP32 dims: 3 label_filename: "labels.txt" }'
SAMPLES = """
    signatures { key: "serving_default" value { model_warmup {
        name: "one" inputs { key: "x" value { data_type: TYPE_FP32 dims: 4 input_data_file: "sample" } }
    } } }
"""
BESIDE = [("config.pbtxt", CONFIG, CONFIG), ("labels.txt", LABELS, "none"), ("warmup/sample", SAMPLES, bytes(16))]
"""Files beside the versions, a configuration that has them read, and what a good one holds."""
FILES = [file for file, _, _ in BESIDE]


@pytest.mark.parametrize(("file", "config"), [(file, config) for file, config, _ in BESIDE], ids=FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_so_is_what_is_no_file_beside_the_versions(site, kind, file, config):
    site.put(config=config)
    place = site.root / "clip" / file
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    KINDS[kind](place)
    start(site)

    assert f"{place}: is a {kind}, not a file" in " ".join(site.log())
    assert site.states() != served(1)


@pytest.mark.parametrize(("file", "config", "content"), BESIDE, ids=FILES)
def test_pipe_that_took_the_place_of_a_file_does_not_hold_up_the_poll(site, file, config, content):
    site.put(config=config)
    site.write(f"clip/{file}", content)
    site.poll()
    assert site.states() == served(1)
    place = site.root / "clip" / file
    place.unlink()
    os.mkfifo(place)
    if place.name != "config.pbtxt":
        site.write("clip/config.pbtxt", f"{config}\n# changed")
    within_time(site.poll)

    assert f"{place}: is a named pipe, not a file" in " ".join(site.log())
    assert site.answer() == 1  # what was loaded before goes on to serve


@pytest.mark.parametrize("kind", ["named pipe", "socket"])
def test_configuration_of_a_chosen_name_that_is_no_file_is_a_load_error_too(site, kind):
    site.places = ModelPlaces([site.root], config_name="large")
    site.put(config=CONFIG)
    place = site.root / "clip/configs/large.pbtxt"
    place.parent.mkdir()
    KINDS[kind](place)
    start(site)

    assert f"{place}: is a {kind}, not a file" in " ".join(site.log())


@pytest.mark.parametrize("file", ["fingerprint.pb", "assets/words.txt"])
def test_pipe_in_the_place_of_a_file_that_is_not_always_read_is_a_load_error_too(site, file):
    place = site.put() / file
    place.unlink(missing_ok=True)
    place.parent.mkdir(exist_ok=True)
    os.mkfifo(place)
    start(site)

    assert_fails(site, f"{place}: is a named pipe, not a file")


def test_link_to_a_pipe_is_as_the_pipe_itself(site):
    place = site.put() / DATA
    place.rename(aside := place.with_name("aside"))
    aside.unlink()
    os.mkfifo(aside)
    place.symlink_to("aside")
    start(site)

    assert_fails(site, f"{place}: is a named pipe, not a file")


def test_another_exports_variables_are_a_load_error_that_names_one_which_is_missing(site):
    shutil.rmtree(site.put() / "variables")
    shutil.copytree(site._export("counter") / "variables", site.root / "clip/1/variables")
    site.start()

    assert_fails(site, "not found in checkpoint")


@pytest.mark.parametrize("shard", [0, 1])
def test_one_shard_of_two_that_is_missing_is_a_load_error_that_names_it(site, shard):
    whole = site.put() / DATA
    whole.rename(whole.with_name(f"variables.data-0000{1 - shard}-of-00002"))
    site.start()

    assert_fails(site, f"variables/variables.data-0000{shard}-of-00002 is missing")


def test_leftovers_of_an_interrupted_writer_are_no_shards(site):
    path = site.put()
    site.write(f"clip/1/{DATA}.tempstate123", "half")
    (path / "variables/variables.data-00000-of-00002").write_bytes(b"half")
    site.start()

    assert site.states() == served(1)
    assert site.log() == []


@pytest.mark.parametrize("file", [GRAPH, DATA, INDEX])
def test_file_that_cannot_be_read_is_a_load_error_that_names_it(site, file, without_rights):
    path = site.put() / file
    without_rights(path)
    site.start()

    assert_fails(site, str(path), "ermission denied")


NO_UTF8 = os.fsdecode(b"caf\xe9")


@pytest.mark.parametrize("begin", [Site.start, Site.poll])
def test_model_whose_name_is_no_utf8_is_a_load_error_and_leaves_the_others_alone(site, begin):
    site.put("bert/1")
    site.put(f"{NO_UTF8}/1")
    begin(site)

    assert site.answer("bert") == 1
    assert site.states() == served(1, model="bert") | {(NO_UTF8, "1"): UNAVAILABLE}
    assert "name is no UTF-8; give it another with --model NAME=PATH" in site.reasons()
    (line,) = site.log()
    assert line.endswith(site.reasons().strip())


def test_model_in_a_directory_whose_name_is_no_utf8_is_served_by_another_name(site):
    site.places = ModelPlaces([], [f"clip={site.root / NO_UTF8}"])
    site.put(f"{NO_UTF8}/1")
    site.start()

    assert site.answer() == 1
    assert site.log() == []


def test_version_whose_name_is_no_utf8_is_ignored_with_a_warning(site):
    site.put()
    (site.root / "clip" / os.fsdecode(b"2\xff")).mkdir()
    site.start()

    assert site.states() == served(1)
    (line,) = site.log()
    assert r"ignored, no versions: '2\udcff'" in line


def tree(root):
    """Return what tells of a write: each path with its status, but for the time of access."""
    found = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_nothing_is_written_into_a_model_repository(site):
    site.put()
    site.put("bert/1", "max_batch_size: 2")
    before = tree(site.root)
    site.start()
    site.poll()
    assert site.answer("clip") == site.answer("bert") == 1

    assert tree(site.root) == before


@pytest.fixture
def read_only():
    """Makes a directory read-only as a volume can be, which stops root, too; no test can where it may not mount."""
    mounted = []

    def mount(directory):
        bound = subprocess.run(["mount", "--bind", directory, directory], capture_output=True, check=False)
        if bound.returncode:
            pytest.skip("may not mount: " + bound.stderr.decode().strip())
        mounted.append(directory)
        subprocess.run(["mount", "-o", "remount,ro,bind", directory], check=True)

    yield mount
    for directory in mounted:
        subprocess.run(["umount", "--lazy", directory], check=True)


def test_read_only_model_repository_is_served(site, read_only):
    site.put()
    site.put("bert/1", "max_batch_size: 2")
    read_only(site.root)
    with pytest.raises(OSError, match="Read-only file system"):
        site.write("clip/2")
    site.start()
    site.poll()

    assert site.answer("clip") == site.answer("bert") == 1
    assert site.log() == []
