"""Callers and the model see the same elements in different shapes."""

import numpy as np
import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import SignatureConfig
from service.reshaping import Reshaping

BATCHED = """
max_batch_size: 4
input { name: "x" dims: [ 1 ] reshape { shape: [ ] } } input { name: "kept" dims: [ 1 ] }
output { name: "y" dims: [ 6 ] reshape { shape: [ 2, 3 ] } }
"""


def reshaping(text):
    return Reshaping.of(text_format.Parse(text, SignatureConfig()))


def shapes(arrays):
    return {name: array.shape for name, array in arrays.items()}


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_rows_stay_rows(rows):
    both = reshaping(BATCHED)
    x, y = np.zeros((rows, 1)), np.zeros((rows, 2, 3))

    assert shapes(both.to_model({"x": x, "kept": x})) == {"x": (rows,), "kept": (rows, 1)}
    assert shapes(both.to_callers({"y": y})) == {"y": (rows, 6)}


def test_open_dimensions_keep_their_sizes():
    both = reshaping("""
        max_batch_size: 4
        input { name: "x" dims: [ -1, 6, -1 ] reshape { shape: [ 1, -1, 2, 3, -1 ] } }
        output { name: "y" dims: [ -1, 1 ] reshape { shape: [ -1 ] } }
    """)

    assert shapes(both.to_model({"x": np.zeros((2, 5, 6, 0))})) == {"x": (2, 1, 5, 2, 3, 0)}
    assert shapes(both.to_callers({"y": np.zeros((2, 7))})) == {"y": (2, 7, 1)}


def test_without_a_batch_dimension_the_whole_shape_changes():
    both = reshaping(BATCHED.replace("max_batch_size: 4", ""))

    assert shapes(both.to_model({"x": np.zeros(1)})) == {"x": ()}
    assert shapes(both.to_callers({"y": np.zeros((2, 3))})) == {"y": (6,)}


def test_elements_keep_their_order_and_their_memory():
    y = np.arange(12).reshape(2, 2, 3)
    told = reshaping(BATCHED).to_callers({"y": y})["y"]

    assert told.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]
    assert np.shares_memory(told, y)


def test_nothing_is_touched_where_nothing_is_reshaped():
    arrays = {"x": np.zeros(1)}
    none = reshaping('input { name: "x" dims: [ 1 ] } output { name: "x" dims: [ 1 ] }')

    assert none.to_model(arrays) is none.to_callers(arrays) is arrays
