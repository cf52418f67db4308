"""The tables of ``signet inspect`` show each signature, and what is wrong is told."""

import pytest
from google.protobuf import text_format
from rich.console import Console

from protos.model_config_pb2 import ModelConfig
from service import inspection
from service.errors import LoadError
from tests.models import KINDS


def parsed(text):
    return text_format.Parse(text, ModelConfig())


def inspected(path):
    """Return the versions that can be served, and what is wrong with the others."""
    found = []
    return found, inspection.inspect(path, found.append)


def shown(path):
    """Return the tables' titles and their cells by signature, as a reader sees them."""
    console = Console(width=200, no_color=True)
    seen = {}
    for table in (version.table() for version in inspected(path)[0]):
        cells = [[console.render_str(cell).plain for cell in column.cells] for column in table.columns]
        seen[str(table.title)] = {name: row for name, *row in zip(*cells, strict=True)}
    return seen


def test_each_signature_is_shown_with_its_tensors_effect_and_whether_it_can_be_batched(export):
    ((title, rows),) = shown(export("counter")).items()

    assert title == "model counter, version 1"
    assert rows["read"] == ["none", "count INT64[]", "pure", "no: it takes no inputs"]
    assert rows["increment"][2:] == ["writing", "no: it writes to the model's state"]


def test_tensors_in_brackets_are_shown_as_they_are_and_optional_ones_are_marked(export):
    ((_, rows),) = shown(export("default_value")).items()

    assert rows["serving_default"][0].split("\n") == ["k FP32[] (optional)", "x FP32[-1,4]"]


def test_batchable_signature_says_yes(export):
    ((_, rows),) = shown(export("module")).items()

    assert "yes" in {row[3] for row in rows.values()}


def test_signature_that_cannot_be_served_is_shown_with_the_reason(export):
    ((_, rows),) = shown(export("sparse")).items()

    assert any(row[3].startswith("cannot be served: ") for row in rows.values())


def test_every_version_that_the_policy_serves_has_a_table(export, tmp_path):
    for version in ("2", "10"):
        (tmp_path / "clip" / version).mkdir(parents=True)
        (tmp_path / "clip" / version / "model.savedmodel").symlink_to(export("counter"))

    assert list(shown(tmp_path)) == ["model clip, version 10"]
    (tmp_path / "clip/config.pbtxt").write_text("version_policy { all {} }")
    assert list(shown(tmp_path)) == ["model clip, version 2", "model clip, version 10"]


def test_models_name_is_no_markup(export, tmp_path):
    (tmp_path / "[red]x").symlink_to(export("counter"))
    ((version,), _) = inspected(tmp_path / "[red]x")

    assert Console().render_str(version.table().title).plain == "model [red]x, version 1"


def write(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)


def test_path_without_a_model_says_so(tmp_path):
    with pytest.raises(LoadError, match="no model found"):
        inspected(tmp_path)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"clip/1/saved_model.pb": b"\xff", "clip/config.pbtxt": b"max_batch_size: x"}, "config.pbtxt:1:17"),
        ({"clip/1/saved_model.pb": b"\xff", "clip/config.pbtxt": b'backend: "python"'}, 'asks for backend: "python"'),
        ({"clip/1/saved_model.pb": b"", "clip/01/saved_model.pb": b""}, "mean the same version"),
        ({"clip/1/saved_model.pb": b"\xff"}, "clip/1"),
        (
            {"clip/1/saved_model.pb": b"\xff", "clip/config.pbtxt": b"version_policy { specific { versions: 7 } }"},
            "model 'clip': the version policy serves none of [1]",
        ),
    ],
)
def test_model_that_cannot_be_served_says_why_and_leaves_the_others_shown(export, tmp_path, files, says):
    write(tmp_path, files)
    for name in ("above", "behind"):
        (tmp_path / name / "1").mkdir(parents=True)
        (tmp_path / name / "1/model.savedmodel").symlink_to(export("counter"))
    found, (problem,) = inspected(tmp_path)

    assert [version.model for version in found] == ["above", "behind"]
    assert says in problem


def test_broken_version_leaves_the_others_shown(export, tmp_path):
    write(tmp_path, {"clip/config.pbtxt": b"version_policy { all {} }", "clip/1/saved_model.pb": b"\xff"})
    (tmp_path / "clip/2").symlink_to(export("counter"))
    found, (problem,) = inspected(tmp_path)

    assert [(version.version, version.is_latest) for version in found] == [(2, True)]
    assert "clip/1" in problem


# Completed configurations. ----------------------------------------------------------------------------------------


def completed(directory, kind, text):
    """Return the completed configuration of an export, and the model that it was completed from."""
    directory.mkdir(parents=True)
    (directory / "1").symlink_to(kind)
    (directory / "config.pbtxt").write_text(text)
    ((version,), problems) = inspected(directory)
    assert problems == []
    return version.completed_config()


@pytest.mark.parametrize("kind", KINDS)
def test_completed_configuration_of_every_kind_is_a_config_file_that_means_the_same(export, tmp_path, kind):
    text = completed(tmp_path / "clip", export(kind), "")
    ((version,), _) = inspected(tmp_path)

    assert completed(tmp_path / "again/clip", export(kind), text) == text
    assert parsed(text).signatures.keys() == version.signatures.keys()


def test_completed_configuration_keeps_what_was_configured(export, tmp_path):
    config = (
        "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 300 } "
        'metric_tags { key: "team" value: "a" } '
        'output { name: "y" label_filename: "labels.txt" } '
        'signatures { key: "add" value { input { name: "b" } input { name: "a" } } }'
    )
    text = completed(tmp_path / "clip", export("module"), config)
    config = parsed(text)

    assert config.max_batch_size == 8
    assert config.signatures["serving_default"].dynamic_batching.max_queue_delay_microseconds == 300
    assert config.output[0].label_filename == "labels.txt"
    assert [each.name for each in config.signatures["add"].input] == ["b", "a"]
    assert dict(config.metric_tags) == {"team": "a"}
    assert config.parameters == {}


def test_dims_that_no_file_can_say_are_left_out(export, tmp_path):
    config = parsed(completed(tmp_path / "clip", export("module"), ""))

    assert list(config.signatures["serving_default"].input[0].dims) == [4]
    assert list(config.signatures["any_rank"].input[0].dims) == []


def test_configuration_that_contradicts_the_model_is_told(export, tmp_path):
    (tmp_path / "1").symlink_to(export("module"))
    (tmp_path / "config.pbtxt").write_text('input { name: "nope" }')
    ((version,), _) = inspected(tmp_path)

    with pytest.raises(LoadError, match="input 'nope' of the configuration is not in the SavedModel"):
        version.completed_config()
