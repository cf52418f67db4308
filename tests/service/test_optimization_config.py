"""What configurations say of XLA and mixed precision."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service.errors import LoadError
from service.optimization_config import optimizations
from service.optimizations import Xla


def read(text):
    return optimizations(text_format.Parse(text, ModelConfig()), model="clip")


def parameter(key, value):
    return f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}'


def signature(name, xla):
    return f'signatures {{ key: "{name}" value {{ xla: "{xla}" }} }}'


@pytest.mark.parametrize(
    ("text", "xla"),
    [
        ("", Xla.OFF),
        (parameter("xla", "on"), Xla.ON),
        (parameter("xla", "auto"), Xla.AUTO),
        ("optimization { graph { level: 1 } }", Xla.AUTO),
        ("optimization { graph { level: -1 } }", Xla.OFF),
        ("optimization { graph { level: 2 } } " + parameter("xla", "off"), Xla.OFF),
    ],
)
def test_model_says_what_xla_compiles(text, xla):
    assert read(text).xla is xla
    assert read(text).xla_of("any") is xla


@pytest.mark.parametrize(
    ("model", "own", "others"), [("off", "on", Xla.OFF), ("on", "off", Xla.ON), ("auto", "on", Xla.AUTO)]
)
def test_signature_goes_before_its_model(model, own, others):
    asked = read(parameter("xla", model) + signature("a", own))

    assert (asked.xla_of("a"), asked.xla_of("b")) == (Xla(own), others)


@pytest.mark.parametrize(("model", "own"), [("auto", "off"), ("off", "auto"), ("on", "auto")])
def test_automatic_choice_of_parts_is_for_all_signatures_or_for_none(model, own):
    with pytest.raises(
        LoadError, match=rf"model 'clip': signatures\['a'\] xla is {own}, but .* is {model}; auto holds"
    ):
        read(parameter("xla", model) + signature("a", own))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (parameter("xla", "ON"), "parameter xla must be off, auto or on, but is 'ON'"),
        (signature("a", "yes"), r"signatures\['a'\] xla must be off, auto or on, but is 'yes'"),
        (parameter("mixed_precision", "1"), "parameter mixed_precision must be off or on, but is '1'"),
    ],
)
def test_other_values_are_refused_by_name(text, says):
    with pytest.raises(LoadError, match=f"model 'clip': {says}"):
        read(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        (parameter("mixed_precision", "on"), True),
        (
            'optimization { execution_accelerators { gpu_execution_accelerator { name: "auto_mixed_precision" } } }',
            True,
        ),
        (
            'optimization { execution_accelerators { gpu_execution_accelerator { name: "auto_mixed_precision" } } }'
            + parameter("mixed_precision", "off"),
            False,
        ),
    ],
)
def test_mixed_precision_is_asked_for_in_our_words_or_in_tritons(text, expected):
    assert read(text).mixed_precision is expected
