import pytest

from service.errors import InvalidArgumentError, UnimplementedError
from service.parameters import DEFAULTS, RequestParameters, read_parameters

VALUES = {
    "int64": ("int64_param", 1),
    "negative int64": ("int64_param", -1),
    "zero": ("int64_param", 0),
    "uint64": ("uint64_param", 2**64 - 1),
    "string": ("string_param", "s"),
    "bool": ("bool_param", True),
    "double": ("double_param", 1.5),
    "unset": (None, None),
}
INT64 = {"int64", "negative int64", "zero"}
FREE = INT64 | {"string", "bool", "double"}
# What a real Triton accepts for each key.
ACCEPTED = {
    "priority": {"int64", "zero", "uint64"},
    "timeout": INT64,
    "sequence_id": INT64 | {"string"},
    "sequence_start": {"bool"},
    "sequence_end": {"bool"},
    "triton_enable_empty_final_response": {"bool"},
    "triton_custom": set(),
    "triton_": set(),
    "binary_data_output": FREE,
    "headers": FREE,
    "custom": FREE,
    "Priority": FREE,
    "": FREE,
    "signature": {"string"},
}
CASES = [(key, label) for key in ACCEPTED for label in VALUES]


@pytest.mark.parametrize(("key", "label"), CASES, ids=[f"{key or 'empty'}-{label}" for key, label in CASES])
def test_each_key_takes_the_types_and_values_that_triton_takes(key, label):
    parameter = (key, *VALUES[label])

    if label in ACCEPTED[key]:
        assert isinstance(read_parameters([parameter]), RequestParameters)
    else:
        with pytest.raises(InvalidArgumentError):
            read_parameters([parameter])


@pytest.mark.parametrize(
    ("key", "label", "text"),
    [
        ("custom", "uint64", "invalid value type for 'custom' parameter, expected int64_param, bool_param, or "),
        ("", "unset", "invalid value type for '' parameter, expected int64_param, bool_param, or string_param."),
        ("priority", "string", "invalid value type for 'priority' parameter, expected int64_param or uint64_param."),
        ("priority", "negative int64", "invalid value for 'priority', expected value >= 0."),
        ("timeout", "uint64", "invalid value type for 'timeout' parameter, expected int64_param."),
        ("sequence_id", "bool", "invalid value type for 'sequence_id' parameter, expected int64_param or string_param"),
        ("sequence_end", "unset", "invalid value type for 'sequence_end' parameter, expected bool_param."),
        ("signature", "int64", "invalid value type for 'signature' parameter, expected string_param."),
        ("triton_custom", "bool", "parameter keys starting with 'triton_' are reserved for Triton usage. Only the "),
    ],
)
def test_a_refusal_has_tritons_text(key, label, text):
    with pytest.raises(InvalidArgumentError) as caught:
        read_parameters([(key, *VALUES[label])])

    assert str(caught.value).startswith(text)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ([], DEFAULTS),
        ([("signature", "string_param", "embed")], RequestParameters(signature="embed")),
        ([("signature", "string_param", "")], DEFAULTS),
        ([("priority", "int64_param", 2)], RequestParameters(priority=2)),
        ([("priority", "uint64_param", 2**64 - 1)], RequestParameters(priority=2**64 - 1)),
        ([("priority", "int64_param", 0)], DEFAULTS),
        ([("timeout", "int64_param", 1500)], RequestParameters(timeout_us=1500)),
        ([("timeout", "int64_param", -(2**63))], RequestParameters(timeout_us=-(2**63))),
        ([("custom", "double_param", 0.5), ("headers", "string_param", "a: b")], DEFAULTS),
        ([("sequence_id", "int64_param", 7), ("sequence_start", "bool_param", True)], DEFAULTS),
        (
            [("timeout", "int64_param", 3), ("signature", "string_param", "f"), ("priority", "int64_param", 1)],
            RequestParameters(signature="f", priority=1, timeout_us=3),
        ),
    ],
)
def test_what_the_parameters_say_is_read(parameters, expected):
    assert read_parameters(parameters) == expected


def test_a_fault_is_found_behind_good_parameters():
    with pytest.raises(InvalidArgumentError, match="'timeout'"):
        read_parameters([("signature", "string_param", "f"), ("timeout", "string_param", "1")])


@pytest.mark.parametrize("longest", ["s" * 128, "\u00fc" * 64], ids=["ascii", "two_bytes_each"])
def test_a_sequence_id_of_128_bytes_is_the_longest(longest):
    read_parameters([("sequence_id", "string_param", longest)])

    with pytest.raises(UnimplementedError, match="128"):
        read_parameters([("sequence_id", "string_param", longest + "s")])
