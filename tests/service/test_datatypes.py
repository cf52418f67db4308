import numpy as np
import pytest
from tritonclient.utils import np_to_triton_dtype, triton_to_np_dtype

from protos import model_config_pb2
from service.datatypes import BYTES, DATATYPES, from_dtype


def test_the_datatypes_are_those_of_the_protocol():
    assert set(DATATYPES) == {
        *("BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64"),
        *("FP16", "FP32", "FP64", "BF16", "BYTES"),
    }


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
def test_the_stock_client_pairs_names_and_dtypes_alike(datatype):
    assert np.dtype(triton_to_np_dtype(datatype.name)) == datatype.dtype
    assert np_to_triton_dtype(datatype.dtype) == datatype.name


@pytest.mark.parametrize("datatype", DATATYPES.values(), ids=DATATYPES)
def test_each_is_found_by_each_of_its_names(datatype):
    assert DATATYPES[datatype.name] is datatype
    assert from_dtype(datatype.dtype) is datatype


def test_every_type_of_the_configuration_is_known():
    assert {datatype.config_name for datatype in DATATYPES.values()} | {"TYPE_INVALID"} == set(
        model_config_pb2.DataType.keys()
    )


def test_item_sizes_are_those_of_the_wire():
    assert {name: datatype.itemsize for name, datatype in DATATYPES.items()} == {
        **dict.fromkeys(["BOOL", "UINT8", "INT8"], 1),
        **dict.fromkeys(["UINT16", "INT16", "FP16", "BF16"], 2),
        **dict.fromkeys(["UINT32", "INT32", "FP32"], 4),
        **dict.fromkeys(["UINT64", "INT64", "FP64"], 8),
        "BYTES": 0,
    }
    assert BYTES.config_name == "TYPE_STRING"


@pytest.mark.parametrize("dtype", [np.complex64, ">f4", "S3", "U3", "datetime64[s]"])
def test_a_dtype_that_the_protocol_lacks_is_a_key_error(dtype):
    with pytest.raises(KeyError):
        from_dtype(np.dtype(dtype))
