import numpy as np
import pytest

from batching.errors import RowsMismatchError
from batching.merge import check_rows, join_rows, slice_rows, split_rows, trim_outputs
from tests.batching.tasks import task


def test_rows_are_joined_in_order():
    joined = join_rows([{"x": np.array([[1], [2]])}, {"x": np.array([[3]])}])

    assert joined["x"].tolist() == [[1], [2], [3]]
    assert joined["x"].flags.c_contiguous


def test_single_task_passes_without_a_copy():
    inputs = {"x": np.zeros((3, 2))}

    assert join_rows([inputs])["x"] is inputs["x"]


def test_bytes_of_different_lengths_are_joined():
    joined = join_rows([{"t": np.array([b"a", b"\0bb"], object)}, {"t": np.array([b""], object)}])

    assert joined["t"].tolist() == [b"a", b"\0bb", b""]


def test_different_names_are_an_error():
    with pytest.raises(KeyError):
        join_rows([{"x": np.zeros(1)}, {"z": np.zeros(1)}])


def test_rows_are_divided_as_views_by_wanted_name():
    outputs = {"y": np.arange(6).reshape(3, 2), "z": np.arange(3)}
    first, second = task(size=2), task(size=1)
    second.outputs = ("z", "y")

    answers = split_rows(outputs, [first, second])

    assert [list(answer) for answer in answers] == [["y"], ["z", "y"]]
    assert answers[0]["y"].tolist() == [[0, 1], [2, 3]]
    assert answers[1]["y"].tolist() == [[4, 5]]
    assert answers[1]["z"].tolist() == [2]
    assert np.shares_memory(answers[0]["y"], outputs["y"])


@pytest.mark.parametrize("shape", [(), (1,), (4, 2), (0, 3)])
def test_output_without_a_row_per_row_is_named(shape):
    with pytest.raises(RowsMismatchError, match="'y'"):
        check_rows({"z": np.zeros(3), "y": np.zeros(shape)}, 3)


def test_slices_are_views():
    rows = np.arange(4)

    assert slice_rows({"x": rows}, 1, 3)["x"].base is rows


def test_rows_are_padded_with_the_first_one():
    joined = join_rows([{"x": np.array([[1], [2]])}, {"x": np.array([[3]])}], padding=2)

    assert joined["x"].tolist() == [[1], [2], [3], [1], [1]]


def test_shorter_rows_are_filled_up_where_that_is_asked_for():
    parts = [
        {"ids": np.array([[1, 2, 3]]), "text": np.array([[b"a"]], object)},
        {"ids": np.array([[4], [5]]), "text": np.array([[b"b", b"c"], [b"d", b"e"]], object)},
    ]

    joined = join_rows(parts, padding=1, fill={"ids": -1, "text": b""})

    assert joined["ids"].tolist() == [[1, 2, 3], [4, -1, -1], [5, -1, -1], [1, 2, 3]]
    assert joined["ids"].dtype == parts[0]["ids"].dtype
    assert joined["text"].tolist() == [[b"a", b""], [b"b", b"c"], [b"d", b"e"], [b"a", b""]]


@pytest.mark.parametrize("fill", [{}, {"other": 0}])
def test_different_inner_shapes_are_an_error_where_filling_is_not_asked_for(fill):
    with pytest.raises(ValueError, match="dimension"):
        join_rows([{"x": np.zeros((1, 2))}, {"x": np.zeros((1, 3))}], fill=fill)


def test_only_axes_that_follow_a_filled_input_are_cut_back():
    short, long = task(), task()
    short.inputs, long.inputs = {"ids": np.zeros((1, 2, 7))}, {"ids": np.zeros((1, 5, 7))}
    answers = [{"per_token": np.zeros((1, 5, 4)), "flat": np.zeros((1, 4)), "other": np.zeros((1, 5))} for _ in "ab"]

    trim_outputs(answers, [short, long], {"per_token": "ids", "flat": "ids", "absent": "ids"})

    assert [answer["per_token"].shape for answer in answers] == [(1, 2, 4), (1, 5, 4)]
    assert [answer["flat"].shape for answer in answers] == [(1, 4), (1, 4)]
    assert [answer["other"].shape for answer in answers] == [(1, 5), (1, 5)]
