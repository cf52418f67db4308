"""docs/configuration.md names every field and flag that can be configured, and says truly what becomes of it."""

import re
from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor

from protos.model_config_pb2 import ModelConfig, SignatureConfig
from protos.tensorflow_serving_pb2 import BatchingParameters
from protos.tensorflow_serving_pb2 import ModelConfig as ListedModel
from service import tensorflow_serving_flags
from service.errors import LoadError
from service.ignored_fields import ignored_fields
from service.model_config import check_supported

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def table_after(words):
    """Return the rows of the first table behind some words: what its first cells name, with their second cells."""
    rows = {}
    (lines,) = re.findall(r"^\|.*?\n(?=\n|\Z)", TEXT[TEXT.index(words) :], re.MULTILINE | re.DOTALL)[:1]
    for line in lines.splitlines()[2:]:
        names, state = line.split("|")[1:3]
        for name in re.findall(r"`([^`]+)`", names):
            assert name not in rows, name
            rows[name] = state.strip()
    return rows


FIELDS = table_after("### config.pbtxt field by field")
PARAMETERS = table_after("What becomes of `parameters`")

GIVEN = {
    "platform": 'platform: "tensorflow_savedmodel"',
    "backend": 'backend: "tensorflow"',
    "runtime": 'runtime: "libtriton_tensorflow.so"',
    "instance_group.kind": "instance_group { kind: KIND_CPU }",
}
"""Fields that are followed, but not to every value of their type."""


def is_map(field):
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def leaves(descriptor, path=()):
    """Yield the path of every field that has none below it; what is below a map belongs to the map."""
    for field in descriptor.fields:
        below = [] if is_map(field) or field.message_type is None else field.message_type.fields
        if below:
            yield from leaves(field.message_type, (*path, field.name))
        else:
            yield ".".join((*path, field.name))


LEAVES = list(leaves(ModelConfig.DESCRIPTOR))


def configuration(path):
    """Return a configuration in which one field alone is not at its default."""
    config = ModelConfig()
    if path in GIVEN:
        return text_format.Parse(GIVEN[path], config)
    message, names = config, path.split(".")
    for name in names[:-1]:
        below = getattr(message, name)
        message = below.add() if hasattr(below, "add") else below
    set_field(message, message.DESCRIPTOR.fields_by_name[names[-1]])
    return config


def set_field(message, field):
    value = getattr(message, field.name)
    if is_map(field):
        key = scalar(field.message_type.fields_by_name["key"])
        below = field.message_type.fields_by_name["value"]
        if below.message_type is None:
            value[key] = scalar(below)
        else:
            value[key].SetInParent()
    elif field.message_type is not None:
        value.SetInParent()
    elif field.is_repeated:
        value.append(scalar(field))
    else:
        setattr(message, field.name, scalar(field))


def scalar(field):
    return {FieldDescriptor.CPPTYPE_STRING: "x", FieldDescriptor.CPPTYPE_BOOL: True}.get(field.cpp_type, 1)


def row_of(path):
    """Return the row that speaks of a field: its own, or that of what it lies in."""
    parts = path.split(".")
    (row,) = {".".join(parts[:n]) for n in range(1, len(parts) + 1)} & FIELDS.keys()
    return row


def told_of(config):
    """Return what the service does with a configuration that says one thing, and what it says of it."""
    try:
        check_supported(config, model="clip")
    except LoadError as refusal:
        return "refused", str(refusal)
    ignored = ignored_fields(config)
    return ("ignored" if ignored else "followed"), "; ".join(ignored)


@pytest.mark.parametrize("path", LEAVES)
def test_every_field_of_a_configuration_has_a_row_and_is_treated_as_it_says(path):
    row = row_of(path)
    state, text = told_of(configuration(path))

    assert state == FIELDS[row]
    assert state == "followed" or row.split(".")[-1] in text


@pytest.mark.parametrize("row", FIELDS)
def test_every_row_is_a_field_of_a_configuration(row):
    assert any(path == row or path.startswith(f"{row}.") for path in LEAVES)


@pytest.mark.parametrize(("row", "state"), PARAMETERS.items())
def test_parameters_are_treated_as_the_table_says(row, state):
    name = "TF_OTHER" if row == "TF_" else row
    config = ModelConfig()
    config.parameters[name].string_value = "true"
    told, text = told_of(config)

    assert told == state
    assert told == "followed" or name in text


def test_parameters_of_the_users_own_are_no_matter_of_the_log():
    config = ModelConfig()
    config.parameters["team"].string_value = "a"

    assert ignored_fields(config) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("### The `signatures` block", SignatureConfig),
        ("What it says of each model", ListedModel),
        ("`batching_parameters.txt` sets", BatchingParameters),
    ],
)
def test_other_tables_name_every_field_of_their_message(words, message):
    assert {field.name for field in message.DESCRIPTOR.fields} <= table_after(words).keys()


def test_every_flag_of_tensorflow_serving_is_in_the_table():
    assert table_after("## Coming from TensorFlow Serving").keys() == tensorflow_serving_flags.FLAGS
