import io

import pytest
from rich.console import Console

from clients.demo.quality import Quality
from clients.demo.report import Line, to_table


def line(**changes):
    known = {
        "requests": 1200,
        "faults": 0,
        "batches": 400,
        "rows": 3600,
        "quality": Quality(0.975, "360 pictures", 0.9),
    }
    return Line(signature="predict", tensors="images FP32[-1,8,8] -> class INT64[-1]", **known | changes)


def test_line_shows_the_mean_batch_in_rows():
    assert line().cells() == (
        "predict",
        "images FP32[-1,8,8] -> class INT64[-1]",
        "1,200",
        "400",
        "9.00",
        "all right",
        "97.5% of 360 pictures",
    )


def test_line_has_dashes_for_what_is_not_known():
    assert line(batches=0, rows=0, quality=None).cells()[3:] == ("0", "-", "all right", "-")


def test_line_counts_wrong_answers():
    assert line(faults=3).cells()[5] == "3 wrong"


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"quality": None}, True),
        ({"faults": 1}, False),
        ({"requests": 0}, False),
        ({"quality": Quality(0.5, "pairs", 0.9)}, False),
    ],
)
def test_line_is_good_only_if_every_answer_is_right_and_worth_something(changes, good):
    assert line(**changes).good is good


def test_table_has_a_row_for_each_signature():
    text = io.StringIO()
    Console(file=text, width=140).print(to_table([line(), line(faults=2)]))
    assert text.getvalue().count("images FP32[-1,8,8]") == 2
    assert text.getvalue().count("9.00") == 2  # rows in a batch
    assert "2 wrong" in text.getvalue()
