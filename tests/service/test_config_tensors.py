"""A configuration may order, leave out and narrow what a signature has, and never contradict it."""

import pytest
from google.protobuf import text_format

from protos.model_config_pb2 import ModelConfig, ModelInput, ModelOutput
from service.config_tensors import complete_entry, pair_signature
from service.datatypes import DATATYPES
from service.errors import LoadError
from service.signature import Effect, Signature, TensorSpec

FP32, BYTES = DATATYPES["FP32"], DATATYPES["BYTES"]
IMAGE = TensorSpec("image", FP32, (-1, -1, 3))
TEXT = TensorSpec("text", BYTES, (-1,))
SCALE = TensorSpec("scale", FP32, (-1, 1), optional=True)
SCORES = TensorSpec("scores", FP32, (-1, 10))
LOSS = TensorSpec("loss", FP32, ())
BLOB = TensorSpec("blob", FP32, None)


def paired(text, *, inputs=(IMAGE, SCALE, TEXT), outputs=(LOSS, SCORES), effect=Effect.PURE):
    config = text_format.Parse(text, ModelConfig())
    return pair_signature(Signature("s", inputs, outputs, effect), config.input, config.output, place="here")


def names(specs):
    return [spec.name for spec in specs]


def test_without_configured_tensors_all_are_seen_as_they_are():
    seen = paired("").narrow(batched=False)

    assert seen == Signature("s", (IMAGE, SCALE, TEXT), (LOSS, SCORES))


def test_configured_tensors_give_the_order_and_leave_out_what_may_be_left_out():
    seen = paired('input { name: "text" } input { name: "image" } output { name: "scores" }').narrow(batched=False)

    assert names(seen.inputs) == ["text", "image"]
    assert names(seen.outputs) == ["scores"]


def test_dims_narrow_open_dimensions():
    narrowed = paired('input { name: "image" dims: [ 224, 3 ] } input { name: "text" }').narrow(batched=True)

    assert [spec.shape for spec in narrowed.inputs] == [(-1, 224, 3), (-1,)]


def test_dims_of_the_full_rank_may_fix_the_first_dimension():
    narrowed = paired('input { name: "image" dims: [ 1, -1, 3 ] } input { name: "text" }').narrow(batched=False)

    assert narrowed.inputs[0].shape == (1, -1, 3)


def test_dims_say_what_an_unknown_shape_is():
    pair = paired('input { name: "blob" dims: [ 4 ] }', inputs=(BLOB,), outputs=(SCORES,))

    assert pair.may_be_batched
    assert pair.narrow(batched=True).inputs[0].shape == (-1, 4)
    assert pair.narrow(batched=False).inputs[0].shape == (4,)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'input { name: "picture" }',
            r"input 'picture' of the configuration is not in the SavedModel, which has image FP32\[-1,-1,3\], scale",
        ),
        (
            'output { name: "image" }',
            r"output 'image' of the configuration is not in the SavedModel, which has loss FP32\[\], scores",
        ),
        ('output { name: "loss" } output { name: "loss" }', "output 'loss' is listed 2 times"),
        ('input { name: "image" }', r"leaves out input text BYTES\[-1\], which every request must send"),
        (
            'input { name: "image" data_type: TYPE_INT8 }',
            "input 'image': the configuration says TYPE_INT8, the SavedModel TYPE_FP32",
        ),
        ('input { name: "text" optional: true }', "input 'text': the configuration calls it optional"),
        ('input { name: "image" dims: [ 0, 3 ] }', "input 'image': dims must be 1 or more, or -1 .* is 0"),
        ('input { name: "image" dims: [ -2, 3 ] }', "input 'image': dims must be 1 or more, or -1 .* is -2"),
    ],
)
def test_a_contradiction_is_refused_with_both_sides(text, says):
    with pytest.raises(LoadError, match=f"^here: .*{says}|^here: the configuration {says}"):
        paired(text)


@pytest.mark.parametrize(
    ("dims", "batched", "says"),
    [
        ("[ -1, 224, 3 ]", True, r"shape \[-1, -1, 224, 3\] \(its dims behind the batch .* SavedModel \[-1, -1, 3\]"),
        ("[ 224, 3 ]", False, r"shape \[224, 3\] \(its dims, without batching\), the SavedModel \[-1, -1, 3\]"),
        ("[ 224, 4 ]", True, r"shape \[-1, 224, 4\]"),
        ("[ 224, -1 ]", True, r"shape \[-1, 224, -1\]"),
    ],
)
def test_dims_that_do_not_fit_the_shape_are_refused(dims, batched, says):
    pair = paired(f'input {{ name: "image" dims: {dims} }} input {{ name: "text" }}')

    with pytest.raises(LoadError, match=f"^here: input 'image': the configuration says {says}"):
        pair.narrow(batched=batched)


def test_dims_are_complete_when_they_have_as_many_axes_as_the_shape():
    assert paired('output { name: "scores" dims: [ -1, 10 ] }').dims_are_complete
    assert not paired('output { name: "scores" dims: [ 10 ] }').dims_are_complete
    assert not paired("").dims_are_complete


def test_a_tensor_that_is_not_offered_does_not_stand_against_batching():
    whole = paired("", inputs=(TEXT,))
    part = paired('output { name: "scores" }', inputs=(TEXT,))

    assert whole.why_no_batch_dimension == "output loss FP32[] has no open first dimension"
    assert part.why_no_batch_dimension is None


def test_a_signature_that_writes_has_a_batch_dimension_but_may_not_be_batched():
    writing = paired("", inputs=(TEXT,), outputs=(SCORES,), effect=Effect.WRITING)

    assert writing.why_no_batch_dimension is None
    assert not writing.may_be_batched


def test_an_entry_is_completed_and_keeps_what_else_it_says():
    entry = ModelOutput(label_filename="labels.txt")
    completed = complete_entry(entry, SCORES, batched=True)

    assert completed == ModelOutput(name="scores", data_type="TYPE_FP32", dims=[10], label_filename="labels.txt")
    assert entry == ModelOutput(label_filename="labels.txt")


@pytest.mark.parametrize(
    ("spec", "batched", "dims"),
    [(TEXT, True, []), (TEXT, False, [-1]), (LOSS, False, []), (BLOB, False, [-1]), (IMAGE, True, [-1, 3])],
)
def test_dims_leave_out_the_batch_dimension_alone(spec, batched, dims):
    assert list(complete_entry(ModelOutput(), spec, batched=batched).dims) == dims


def test_an_input_with_a_default_value_is_optional():
    assert complete_entry(ModelInput(), SCALE, batched=True).optional


PIXELS = TensorSpec("text", FP32, (-1, 2, 3))
RESHAPED = 'input { name: "text" dims: [ 1 ] reshape { shape: [ ] } }'


@pytest.mark.parametrize(
    ("spec", "text", "batched", "seen"),
    [
        (TEXT, RESHAPED, True, (-1, 1)),
        (TEXT, 'input { name: "text" dims: [ 1, 1 ] reshape { shape: [ ] } }', True, (-1, 1, 1)),
        (TensorSpec("text", FP32, ()), RESHAPED, False, (1,)),
        (PIXELS, 'input { name: "text" dims: [ 6 ] reshape { shape: [ 2, 3 ] } }', True, (-1, 6)),
        (TensorSpec("text", FP32, None), RESHAPED, True, (-1, 1)),
    ],
)
def test_with_reshape_callers_see_the_dims(spec, text, batched, seen):
    pair = paired(text, inputs=(spec,), outputs=(SCORES,))

    assert pair.narrow(batched=batched).inputs[0].shape == seen
    assert pair.may_be_batched == batched
    assert pair.dims_are_complete != batched


def test_what_reshape_names_must_fit_the_shape():
    pair = paired('input { name: "text" dims: [ 4 ] reshape { shape: [ 2, 2 ] } }', inputs=(TEXT,))

    with pytest.raises(LoadError, match=r"shape \[-1, 2, 2\] \(its dims behind the batch .* SavedModel \[-1\]"):
        pair.narrow(batched=True)


@pytest.mark.parametrize(
    ("dims", "shape"),
    [("", ""), ("1", "2"), ("2", ""), ("1", "-1"), ("4", "2, -1"), ("", "1"), ("-1, -1", "-1"), ("2, -1", "-1, 2")],
)
def test_reshape_keeps_the_elements_around_open_dimensions(dims, shape):
    with pytest.raises(LoadError, match=r"^here: input 'text': reshape keeps the number of elements"):
        paired(f'input {{ name: "text" dims: [ {dims} ] reshape {{ shape: [ {shape} ] }} }}', inputs=(TEXT,))


def test_reshape_of_open_dimensions_shows_the_dims_to_callers():
    spec = TensorSpec("text", FP32, (-1, 2, -1, 3))
    pair = paired('input { name: "text" dims: [ 1, 2, -1, 1, 3 ] reshape { shape: [ 2, -1, 3 ] } }', inputs=(spec,))

    assert pair.narrow(batched=True).inputs[0].shape == (-1, 1, 2, -1, 1, 3)


def test_a_completed_entry_tells_of_its_reshape():
    entry = ModelOutput(dims=[1], reshape={"shape": []})
    completed = complete_entry(entry, TensorSpec("y", FP32, (-1, 1)), batched=True)

    assert (list(completed.dims), completed.HasField("reshape")) == ([1], True)
