"""Short forms for calls with the stock client."""

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import np_to_triton_dtype

on_each_transport = pytest.mark.parametrize("transport", ["auto", "grpcio"], indirect=True, scope="session")
"""Marks tests of the wire: they run on the default transport, which is the native one here, and on the reference."""


def tensors(inputs, datatypes=None):
    """Return the client's input objects for arrays by name."""
    made = []
    for name, array in inputs.items():
        datatype = (datatypes or {}).get(name) or np_to_triton_dtype(array.dtype)
        tensor = triton.InferInput(name, list(array.shape), datatype)
        tensor.set_data_from_numpy(array)
        made.append(tensor)
    return made


def call(client, model, inputs, signature=None, **options):
    """Infer and return the outputs by name."""
    parameters = {"signature": signature} if signature else None
    result = client.infer(model, tensors(inputs), parameters=parameters, **options)
    return {output.name: result.as_numpy(output.name) for output in result.get_response().outputs}


def rows(count, first_id=1, columns=4):
    """Return [count, columns] floats whose column 0 is a row id and whose column 3 is 0 (so that `slow` is quick)."""
    x = np.arange(count * columns, dtype=np.float32).reshape(count, columns) % 7
    x[:, 0] = np.arange(first_id, first_id + count)
    x[:, 3] = 0
    return x


def texts(*elements):
    """Return bytes as the object array that clients send."""
    array = np.empty(len(elements), object)
    array[:] = elements
    return array
