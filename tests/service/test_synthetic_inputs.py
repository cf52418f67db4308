"""Made-up inputs have the datatype that they are for, and values that most models can take."""

import numpy as np
import pytest

from service.datatypes import BYTES, DATATYPES
from service.synthetic_inputs import random_values, zeros


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
def test_zeros_are_zeros_or_empty(datatype):
    array = zeros(datatype, (2, 3))

    assert (array.dtype, array.shape) == (datatype.dtype, (2, 3))
    assert array.tolist() == [[b"" if datatype is BYTES else 0] * 3] * 2


@pytest.mark.parametrize("name", [name for name in DATATYPES if name != "BYTES"])
def test_random_values_differ_and_stay_small(name):
    datatype = DATATYPES[name]
    array = random_values(datatype, (8, 8), np.random.default_rng(0))

    assert (array.dtype, array.shape) == (datatype.dtype, (8, 8))
    assert len(set(array.ravel().tolist())) > 1
    assert 0 <= array.min() <= array.max() <= 3
