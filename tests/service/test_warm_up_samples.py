"""Samples of model_warmup become tensors, or say which of them does not fit and why."""

import numpy as np
import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig
from service.config_completion import ConfigDefaults, complete
from service.errors import LoadError
from service.warm_up_samples import MAX_SAMPLE_BYTES, read_samples
from tests.fakes import signature, spec

SIGNATURES = {
    "serving_default": signature("serving_default", [spec("x", shape=(-1, 3))], [spec("y")]),
    "words": signature("words", [spec("w", "BYTES", (-1,)), spec("k", "INT8", (-1,))], [spec("y")]),
    "fixed": signature("fixed", [spec("t", "INT32", (2, 2)), spec("o", shape=(), optional=True)], [spec("y")]),
}


def samples(directory, text):
    config = text_format.Parse(text, ModelConfig())
    completed = complete(config, model="clip", signatures=SIGNATURES, defaults=ConfigDefaults(default_max_batch_size=8))
    return read_samples(completed, directory, model="clip")


def of_signature(name, text):
    return f'signatures {{ key: "{name}" value {{ model_warmup {{ name: "one" {text} }} }} }}'


def entry(name="x", data_type="TYPE_FP32", dims="3", data="zero_data: true"):
    return f'inputs {{ key: "{name}" value {{ data_type: {data_type} dims: [ {dims} ] {data} }} }}'


def inputs_of(directory, name, text):
    ((one,),) = samples(directory, of_signature(name, text)).values()
    return {key: array.tolist() for key, array in one.inputs.items()}


@pytest.fixture
def files(tmp_path):
    folder = tmp_path / "warmup"
    folder.mkdir()
    (folder / "row").write_bytes(np.array([1, 2, 3], "<f4").tobytes())
    (folder / "rows").write_bytes(np.arange(6, dtype="<f4").tobytes())
    (folder / "word").write_bytes(b"\x03\0\0\0owl")
    (folder / "words").write_bytes(b"\x03\0\0\0owl\0\0\0\0")
    (folder / "square").write_bytes(np.arange(4, dtype="<i4").tobytes())
    return tmp_path


def test_samples_of_the_model_are_for_the_default_signature_and_a_signature_may_have_its_own(tmp_path):
    text = f'model_warmup {{ name: "a" batch_size: 2 count: 5 {entry()} }} model_warmup {{ name: "b" {entry()} }}'
    found = samples(tmp_path, text + of_signature("fixed", entry("t", "TYPE_INT32", "2, 2")))

    assert {name: [(each.name, each.count) for each in listed] for name, listed in found.items()} == {
        "serving_default": [("a", 5), ("b", 1)],
        "fixed": [("one", 1)],
    }
    assert found["serving_default"][0].inputs["x"].shape == (2, 3)


def test_own_samples_of_the_default_signature_go_before_the_models(tmp_path):
    text = f'model_warmup {{ name: "a" {entry()} }}' + of_signature("serving_default", entry())

    assert [each.name for each in samples(tmp_path, text)["serving_default"]] == ["one"]


def test_zeros_and_random_values_have_the_shape_of_the_batch(tmp_path):
    assert inputs_of(tmp_path, "serving_default", f"batch_size: 2 {entry()}") == {"x": [[0, 0, 0]] * 2}
    given = inputs_of(tmp_path, "serving_default", f"batch_size: 2 {entry(data='random_data: true')}")["x"]
    assert len(set(np.ravel(given))) == 6


def test_random_strings_are_empty_as_in_triton(tmp_path):
    text = entry("w", "TYPE_STRING", "", "random_data: true") + entry("k", "TYPE_INT8", "")

    assert inputs_of(tmp_path, "words", text) == {"w": [b""], "k": [0]}


@pytest.mark.parametrize(
    ("file", "batch_size", "rows"),
    [
        ("row", 0, [[1, 2, 3]]),
        ("row", 1, [[1, 2, 3]]),
        ("row", 3, [[1, 2, 3]] * 3),
        ("rows", 2, [[0, 1, 2], [3, 4, 5]]),
    ],
)
def test_file_holds_one_row_that_is_repeated_or_all(files, file, batch_size, rows):
    text = f'batch_size: {batch_size} {entry(data=f"""input_data_file: "{file}" """)}'

    assert inputs_of(files, "serving_default", text) == {"x": rows}


@pytest.mark.parametrize(("file", "words"), [("word", [b"owl", b"owl"]), ("words", [b"owl", b""])])
def test_strings_in_a_file_have_their_lengths_before_them(files, file, words):
    text = (
        f'batch_size: 2 {entry("w", "TYPE_STRING", "", f"""input_data_file: "{file}" """)}{entry("k", "TYPE_INT8", "")}'
    )

    assert inputs_of(files, "words", text)["w"] == words


def test_file_of_a_tensor_without_a_batch_dimension_holds_it_whole_and_optional_inputs_may_be_missing(files):
    text = entry("t", "TYPE_INT32", "2, 2", 'input_data_file: "square"')

    assert inputs_of(files, "fixed", text) == {"t": [[0, 1], [2, 3]]}


@pytest.mark.parametrize(
    ("signature", "text", "says"),
    [
        ("serving_default", "", r"input x FP32\[-1,3\] is missing; the signature takes x FP32\[-1,3\]"),
        ("serving_default", entry("nope"), r"there is no input 'nope'; the signature takes x FP32\[-1,3\]"),
        (
            "serving_default",
            entry(data_type="TYPE_FP64"),
            "input 'x': the sample says TYPE_FP64, the signature TYPE_FP32",
        ),
        ("serving_default", entry(dims="4"), r"'x': the sample has shape \[1, 4\], the signature takes x FP32\[-1,3\]"),
        ("serving_default", entry(dims="1, 3"), r"the sample has shape \[1, 1, 3\]"),
        ("serving_default", entry(dims="-1"), r"the sample has shape \[1, -1\]"),
        ("serving_default", f"batch_size: 9 {entry()}", "batch_size is 9, but max_batch_size is 8"),
        ("serving_default", entry(data=""), "neither zero_data nor random_data nor input_data_file"),
        ("fixed", f"batch_size: 2 {entry('t', 'TYPE_INT32', '2, 2')}", "batch_size is 2, but max_batch_size is 0"),
        (
            "serving_default",
            entry(data='input_data_file: "absent"'),
            "'x': .*warmup/absent cannot be read: .*No such file",
        ),
        ("serving_default", entry(data='input_data_file: ""'), "input_data_file '' must lie in .*warmup"),
        ("serving_default", entry(data='input_data_file: "../secret"'), "'../secret' must lie in .*warmup"),
        ("serving_default", entry(data='input_data_file: "/etc/passwd"'), "'/etc/passwd' must lie in .*warmup"),
        (
            "serving_default",
            entry(data='input_data_file: "rows"'),
            r"file 'rows': does not hold FP32\[1, 3\]: Expected 12, got 24",
        ),
        (
            "serving_default",
            f"""batch_size: 3 {entry(data='input_data_file: "rows"')}""",
            r"file 'rows' holds neither one row nor 3: does not hold FP32\[3, 3\]: Expected 36, got 24",
        ),
        (
            "words",
            entry("w", "TYPE_STRING", "", 'input_data_file: "row"') + entry("k", "TYPE_INT8", ""),
            "'w': file 'row': does not hold BYTES.*incomplete string data",
        ),
    ],
)
def test_sample_that_does_not_fit_says_which_and_shows_both_sides(files, signature, text, says):
    with pytest.raises(LoadError, match=says) as refusal:
        samples(files, of_signature(signature, text))

    assert str(refusal.value).startswith(f"model 'clip', signature '{signature}', warm-up sample 'one'")


def test_sample_that_no_memory_can_hold_is_refused(tmp_path):
    open_width = {"wide": signature("wide", [spec("x", shape=(-1, -1))], [spec("y")])}
    config = text_format.Parse(f'model_warmup {{ name: "one" {entry(dims="1000000000000")} }}', ModelConfig())
    completed = complete(config, model="clip", signatures=open_width, defaults=ConfigDefaults())

    with pytest.raises(LoadError, match=f"takes 4000000000000 bytes, more than {MAX_SAMPLE_BYTES}"):
        read_samples(completed, tmp_path, model="clip")


def test_file_that_no_memory_can_hold_is_not_read(files):
    with (files / "warmup" / "vast").open("wb") as file:
        file.truncate(MAX_SAMPLE_BYTES + 1)

    with pytest.raises(LoadError, match=f"vast has {MAX_SAMPLE_BYTES + 1} bytes"):
        samples(files, of_signature("serving_default", entry(data='input_data_file: "vast"')))


def test_samples_of_the_model_need_a_default_signature(tmp_path):
    config = text_format.Parse(f'model_warmup {{ name: "one" {entry()} }}', ModelConfig())
    two = {name: SIGNATURES[name] for name in ("words", "fixed")}

    with pytest.raises(LoadError, match="has inputs, outputs or samples, but no default signature"):
        complete(config, model="clip", signatures=two, defaults=ConfigDefaults())
