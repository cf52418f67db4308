"""Labels come from files in the model's directory and nowhere else."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service.config_completion import ConfigDefaults, complete
from service.errors import LoadError
from service.labels import read_labels
from tests.fakes import signature, spec

SIGNATURES = {name: signature(name, [spec("x")], [spec("y"), spec("z")]) for name in ("serving_default", "other")}
DEFAULTS = ConfigDefaults()


def read(directory, text):
    config = text_format.Parse(text, ModelConfig())
    completed = complete(config, model="m", signatures=SIGNATURES, defaults=DEFAULTS)
    return read_labels(completed, directory, model="m")


def with_file(name):
    return f'output {{ name: "y" label_filename: "{name}" }} output {{ name: "z" }}'


def test_each_line_is_a_label_as_it_is(tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"zero\r\n\ntwo words: \xff\x00")

    assert read(tmp_path, with_file("labels.txt"))["serving_default"] == {"y": (b"zero", b"", b"two words: \xff\x00")}


def test_without_label_files_there_are_no_labels(tmp_path):
    assert read(tmp_path, "") == {"serving_default": {}, "other": {}}


def test_signatures_have_label_files_of_their_own(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "b.txt").write_text("b")

    own = f'signatures {{ key: "other" value {{ {with_file("deep/b.txt")} }} }}'
    labels = read(tmp_path, with_file("a.txt") + own)

    assert labels == {"serving_default": {"y": (b"a",)}, "other": {"y": (b"b",)}}


def test_a_link_in_the_directory_may_lead_elsewhere(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "stored").write_text("a")
    (tmp_path / "model" / "labels.txt").symlink_to("../stored")

    assert read(tmp_path / "model", with_file("labels.txt"))["serving_default"] == {"y": (b"a",)}


@pytest.mark.parametrize("name", ["missing.txt", "directory", "nul\\000"])
def test_a_file_that_cannot_be_read_is_named(name, tmp_path):
    (tmp_path / "directory").mkdir()

    with pytest.raises(LoadError, match="model 'm': the label file ") as raised:
        read(tmp_path, with_file(name))

    assert str(tmp_path / name[:3]) in str(raised.value)


@pytest.mark.parametrize("name", ["/etc/hostname", "../labels.txt", "deep/../../labels.txt"])
def test_a_path_that_leaves_the_directory_is_refused(name, tmp_path):
    (tmp_path / "model" / "deep").mkdir(parents=True)
    (tmp_path / "labels.txt").write_text("a")

    with pytest.raises(LoadError, match=f"label_filename '{name}' must lie in the model's directory"):
        read(tmp_path / "model", with_file(name))
