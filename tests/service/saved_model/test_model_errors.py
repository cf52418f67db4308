"""Of TensorFlow's messages only what helps is kept."""

import pytest

from service.saved_model.model_errors import shorten


@pytest.mark.parametrize(
    ("message", "short"),
    [
        ("assertion failed: [no] [x]\n\t [[{{node a/Assert}}]]", "assertion failed: [no] [x]"),
        ("Bad input.\n\t [[{{function_node f}}{{node n}}]]\n\t [[other]]", "Bad input."),
        (
            "Graph execution error:\n\nCould not parse\n\nOriginal stack trace for 'x':\n  File \"/home/a.py\"",
            "Could not parse",
        ),
        (
            "2 root error(s) found.\n  (0) INVALID_ARGUMENT: bad shape\n\t [[{{node a}}]]\n  (1) INVALID_ARGUMENT: bad",
            "INVALID_ARGUMENT: bad shape",
        ),
        (
            "Detected at node 'a' defined at:\n  File \"a\", line 9\n  File \"b\"\nNode: 'a'\nOOM\n\t [[{{node a}}]]",
            "OOM",
        ),
        ("Detected at node 'x' defined at (most recent call last):\n File", ""),
        ("two\n  lines", "two lines"),
    ],
)
def test_noise_goes(message, short):
    assert shorten(message) == short


def test_long_messages_are_cut():
    assert len(shorten("x" * 10_000)) == 600
    assert shorten("x" * 10_000).endswith("x...")
