"""Values from the command line become the tensors they look like, or an error that names the input."""

import io
import json

import ml_dtypes
import numpy as np
import pytest
from PIL import Image

from clients.command_line.tensors import InputError, TensorSpec, random_input, read_inputs, to_array, to_json

IMAGES = TensorSpec("images", "FP32", (-1, 2, 2))
WORDS = TensorSpec("words", "BYTES", (-1,))
IDS = TensorSpec("ids", "INT32", (-1, 3))
SCALAR = TensorSpec("scale", "FP64", ())


def read(spec, text, standard_input=""):
    return read_inputs([text], {spec.name: spec}, io.StringIO(standard_input))[spec.name]


def check(array, dtype, values):
    assert array.dtype == dtype
    assert array.tolist() == values


def test_json_is_a_tensor_of_the_inputs_datatype():
    check(read(IDS, "ids=[[1,2,3],[4,5,6]]"), np.int32, [[1, 2, 3], [4, 5, 6]])
    check(read(SCALAR, "scale=2"), np.float64, 2.0)


def test_one_row_needs_no_list_around_it():
    check(read(IDS, "ids=[1,2,3]"), np.int32, [[1, 2, 3]])
    check(read(WORDS, "words=seven"), np.object_, [b"seven"])


def test_texts_need_no_quotes_and_may_hold_equals_signs():
    check(read(WORDS, "words=a=b"), np.object_, [b"a=b"])
    check(read(WORDS, "words=7"), np.object_, [b"7"])
    check(read(WORDS, 'words=["ä","b"]'), np.object_, ["ä".encode(), b"b"])
    check(read(WORDS, 'words=[{"b64":"AP8="}]'), np.object_, [b"\x00\xff"])


def test_standard_input_brings_all_inputs():
    arrays = read_inputs(
        ["-"], {"ids": IDS, "words": WORDS}, io.StringIO(json.dumps({"ids": [1, 2, 3], "words": ["x"]}))
    )

    check(arrays["ids"], np.int32, [[1, 2, 3]])
    check(arrays["words"], np.object_, [b"x"])


def test_npy_file_is_cast_where_nothing_is_lost(tmp_path):
    np.save(tmp_path / "x.npy", np.arange(6, dtype=np.int64).reshape(2, 3))
    np.save(tmp_path / "s.npy", np.array(["a", "b"]))

    check(read(IDS, f"ids=@{tmp_path}/x.npy"), np.int32, [[0, 1, 2], [3, 4, 5]])
    check(read(WORDS, f"words=@{tmp_path}/s.npy"), np.object_, [b"a", b"b"])


def test_json_file_is_read_as_the_value(tmp_path):
    (tmp_path / "x.json").write_text("[7, 8, 9]\n")

    check(read(IDS, f"ids=@{tmp_path}/x.json"), np.int32, [[7, 8, 9]])


@pytest.mark.parametrize(
    ("shape", "mode", "expected"),
    [
        ((-1, 2, 2), "L", [[[0, 50], [100, 255]]]),
        ((-1, 2, 2, 1), "L", [[[[0], [50]], [[100], [255]]]]),
        ((-1, -1, -1, 3), "RGB", [[[[0] * 3, [50] * 3], [[100] * 3, [255] * 3]]]),
        ((2, 2), "L", [[0, 50], [100, 255]]),
    ],
)
def test_picture_is_its_levels_in_the_shape_of_the_input(tmp_path, shape, mode, expected):
    Image.fromarray(np.array([[0, 50], [100, 255]], np.uint8)).convert(mode).save(tmp_path / "p.png")

    check(read(TensorSpec("p", "FP32", shape), f"p=@{tmp_path}/p.png"), np.float32, expected)


def test_picture_is_scaled_to_the_size_that_the_input_fixes(tmp_path):
    Image.new("RGB", (40, 30), (9, 9, 9)).save(tmp_path / "p.jpg")

    array = read(TensorSpec("p", "UINT8", (-1, 4, 5, 3)), f"p=@{tmp_path}/p.jpg")

    assert array.shape == (1, 4, 5, 3)
    assert array.dtype == np.uint8


def test_picture_for_bytes_is_the_file_itself(tmp_path):
    (tmp_path / "p.png").write_bytes(b"\x89PNG, or not")

    check(read(WORDS, f"words=@{tmp_path}/p.png"), np.object_, [b"\x89PNG, or not"])


@pytest.mark.parametrize(
    ("spec", "text", "said"),
    [
        (IDS, "idz=1", "no input 'idz'; there are: ids INT32[-1,3]"),
        (IDS, "ids", "--input ids: write NAME=VALUE"),
        (IDS, "ids=one", "'one' is no JSON"),
        (IDS, "ids=[1.5,2,3]", "values that are no INT32"),
        (IDS, "ids=[3000000000,2,3]", "values that are no INT32"),
        (IDS, "ids=[[1,2],[3]]", "differ in length"),
        (IDS, 'ids=["a"]', "takes numbers"),
        (IDS, "ids=null", "takes numbers"),
        (IDS, "ids=@/nowhere.npy", "/nowhere.npy: No such file"),
        (IDS, "ids=@/etc/hostname", "neither .npy nor .json nor a picture"),
        (WORDS, "words=[1]", "takes texts"),
        (WORDS, 'words={"b64":"?"}', "not base64"),
        (WORDS, 'words=[["a"],"b"]', "takes texts"),
        (IDS, "-", "no JSON"),
    ],
)
def test_what_makes_no_tensor_is_told_with_the_input(spec, text, said):
    with pytest.raises(InputError) as caught:
        read(spec, text)

    assert said in str(caught.value)


def test_broken_files_are_told(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"nothing")
    (tmp_path / "x.png").write_bytes(b"nothing")

    for spec, name in ((IDS, "x.npy"), (IMAGES, "x.png")):
        with pytest.raises(InputError, match=rf"{spec.name}.*{name}"):
            read(spec, f"{spec.name}=@{tmp_path}/{name}")
    with pytest.raises(InputError, match="shape of a picture"):
        read(TensorSpec("v", "FP32", (-1,)), f"v=@{tmp_path}/x.png")


def test_json_comes_back_as_it_was_written():
    for spec, value in ((IDS, [[1, 2, 3]]), (WORDS, ["a", {"b64": "AP8="}]), (SCALAR, 0.5)):
        assert to_json(to_array(value, spec)) == value


def test_json_has_no_numbers_that_json_lacks():
    assert to_json(np.array([np.nan, np.inf, 1], ml_dtypes.bfloat16)) == ["nan", "inf", 1.0]


@pytest.mark.parametrize("datatype", ["FP32", "BF16", "INT8", "BOOL", "BYTES"])
def test_made_up_inputs_have_the_rows_asked_for(datatype):
    array = random_input(TensorSpec("x", datatype, (-1, 3)), 5, np.random.default_rng(0))

    assert array.shape == (5, 3)


def test_inputs_with_open_inner_dimensions_are_not_made_up():
    with pytest.raises(InputError, match="--input tokens="):
        random_input(TensorSpec("tokens", "INT64", (-1, -1)), 1, np.random.default_rng(0))
