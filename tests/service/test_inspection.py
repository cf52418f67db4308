"""The tables of ``signet inspect`` show each signature, and what is wrong is told."""

import pytest
from rich.console import Console

from service import inspection
from service.errors import LoadError


def shown(path):
    """Return the tables' titles and their cells by signature, as a reader sees them."""
    console = Console(width=200, no_color=True)
    seen = {}
    for table in inspection.tables(path):
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
    (table,) = inspection.tables(tmp_path / "[red]x")

    assert Console().render_str(table.title).plain == "model [red]x, version 1"


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no model found"),
        ({"clip/1/saved_model.pb": b"\xff", "clip/config.pbtxt": b"max_batch_size: x"}, "config.pbtxt:1:17"),
        ({"clip/1/saved_model.pb": b"", "clip/01/saved_model.pb": b""}, "model 'clip': .*mean the same version"),
        ({"clip/1/saved_model.pb": b"\xff"}, "clip/1"),
        (
            {"clip/1/saved_model.pb": b"\xff", "clip/config.pbtxt": b"version_policy { specific { versions: 7 } }"},
            r"model 'clip': the version policy serves none of \[1\]",
        ),
    ],
)
def test_what_cannot_be_inspected_says_why(tmp_path, files, says):
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)

    with pytest.raises(LoadError, match=says):
        inspection.tables(tmp_path)
