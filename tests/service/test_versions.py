import ctypes
import os

import pytest
from google.protobuf import text_format
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protos.model_config_pb2 import ModelVersionPolicy
from service.errors import InvalidArgumentError
from service.versions import choose_versions, parse_version


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", None),
        ("1", 1),
        ("9", 9),
        ("10", 10),
        ("1/../1", 1),
        ("0", 0),
        ("-0", 0),
        ("+1", 1),
        ("01", 1),
        ("1abc", 1),
        ("1.9", 1),
        ("0x10", 0),
        (" 1", 1),
        ("\t\n\v\f\r 1", 1),
        ("1\0", 1),
        ("9223372036854775807", 2**63 - 1),
        ("0" * 5000 + "7", 7),
    ],
)
def test_a_version_is_read_as_triton_reads_it(text, number):
    assert parse_version(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        " ",
        "-",
        "+",
        "+-1",
        "- 1",
        "\u00a01",
        "\u0661",
        "99999999999999999999",
        "9223372036854775808",
        "9" * 5000,
    ],
)
def test_text_without_a_number_of_64_bits_is_refused(text):
    with pytest.raises(InvalidArgumentError) as caught:
        parse_version(text)

    assert str(caught.value) == (
        f"failed to get model version from specified version string '{text[:100]}' (details: stol), "
        "version should be an integral value > 0"
    )


@pytest.mark.parametrize("text", ["-1", " -01", "-9223372036854775807", "-1abc"])
def test_a_negative_version_is_refused_with_a_text_of_its_own(text):
    with pytest.raises(InvalidArgumentError) as caught:
        parse_version(text)

    assert str(caught.value) == (f"invalid model version specified '{text}' , version should be an integral value > 0")


def strtol(text):
    """Return what C makes of the text: a number, or None when there is none or it does not fit."""
    function = ctypes.CDLL(None, use_errno=True).strtol
    function.restype = ctypes.c_long
    function.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int]
    data, end = ctypes.create_string_buffer(text.encode()), ctypes.c_char_p()
    ctypes.set_errno(0)
    number = function(ctypes.cast(data, ctypes.c_char_p), ctypes.byref(end), 10)
    read = ctypes.cast(end, ctypes.c_void_p).value != ctypes.addressof(data)
    return number if read and ctypes.get_errno() == 0 else None


@pytest.mark.skipif(os.name != "posix" or ctypes.sizeof(ctypes.c_long) != 8, reason="C's long has not 64 bits here")
@settings(derandomize=True, deadline=None, max_examples=500)
@example("9223372036854775808")
@example("-9223372036854775808")
@given(
    st.text("0123456789+- \t\n\v\f\rax.\u0661\u00a0", min_size=1, max_size=25) | st.integers(-(2**65), 2**65).map(str)
)
def test_any_text_means_what_strtol_of_c_reads(text):
    expected = strtol(text)

    if expected is None or expected < 0:
        with pytest.raises(InvalidArgumentError):
            parse_version(text)
    else:
        assert parse_version(text) == expected


@pytest.mark.parametrize(
    ("policy", "chosen"),
    [
        ("", [10]),
        ("latest {}", [10]),
        ("latest { num_versions: 2 }", [3, 10]),
        ("latest { num_versions: 9 }", [0, 2, 3, 10]),
        ("specific { versions: [3, 0, 77] }", [0, 3]),
        ("specific {}", []),
        ("all {}", [0, 2, 3, 10]),
    ],
)
def test_a_policy_chooses_among_the_versions_on_disk_as_numbers(policy, chosen):
    assert choose_versions([10, 2, 0, 3], text_format.Parse(policy, ModelVersionPolicy())) == chosen


def test_no_version_on_disk_leaves_none_to_choose():
    assert choose_versions([], ModelVersionPolicy()) == []
