"""Each fault of a request's tensors is found, the first one is told, and what is right becomes arrays."""

import numpy as np
import pytest

from batching.options import Oversize
from service.errors import InvalidArgumentError
from service.input_checks import Place, check_inputs, check_outputs
from service.request import InputTensor
from service.signature import Signature
from tests.fakes import FakeServable, spec
from tests.service.serving import model_version

PLACE = Place("clip", 7, "f", "")
A, B = spec("a", "FP32", (-1, 2)), spec("b", "INT64", (-1,))
Y, Z = spec("y"), spec("z")


def served(*inputs, outputs=(Y,), max_batch_size=4, oversize=Oversize.CUT):
    """A signature as it is served when nothing is configured but the largest batch."""
    chosen = Signature("f", inputs, outputs)
    loaded = model_version(FakeServable((chosen, dict)), default_max_batch_size=max_batch_size, oversize=oversize)
    loaded.close(0)
    return loaded.find_signature("f")


def tensor(name, datatype, shape, data=None):
    size = {"FP32": 4, "INT64": 8, "BOOL": 1}.get(datatype, 4) * abs(int(np.prod(shape, dtype=object)))
    return InputTensor(name, datatype, shape, bytes(min(size, 1000)) if data is None else data)


def fault(signature, *tensors):
    with pytest.raises(InvalidArgumentError) as caught:
        check_inputs(PLACE, signature, list(tensors))
    return str(caught.value)


# What is right. --------------------------------------------------------------------------------------------------


def test_inputs_become_arrays_in_the_signatures_order():
    b = np.array([5, 6], np.int64)
    a = np.array([[1, 2], [3, 4]], np.float32)
    arrays, rows = check_inputs(
        PLACE,
        served(A, B),
        [tensor("b", "INT64", (2,), b.tobytes()), tensor("a", "FP32", (2, 2), a.tobytes())],
    )

    assert list(arrays) == ["a", "b"]
    np.testing.assert_array_equal(arrays["a"], a)
    np.testing.assert_array_equal(arrays["b"], b)
    assert rows == 2


def test_signature_without_a_batch_dimension_has_one_row():
    signature = served(spec("a", "FP32", (3, 2)))

    assert check_inputs(PLACE, signature, [tensor("a", "FP32", (3, 2))])[1] == 1
    assert check_inputs(PLACE, served(), [])[1] == 1


def test_optional_input_may_be_left_out_and_may_be_sent():
    signature = served(A, spec("k", "FP32", (), optional=True))

    assert list(check_inputs(PLACE, signature, [tensor("a", "FP32", (1, 2))])[0]) == ["a"]
    assert list(check_inputs(PLACE, signature, [tensor("k", "FP32", ()), tensor("a", "FP32", (1, 2))])[0]) == ["a", "k"]


def test_all_inputs_may_be_left_out_where_all_are_optional():
    signature = served(spec("k", "FP32", (-1, 2), optional=True))

    assert check_inputs(PLACE, signature, []) == ({}, 1)


@pytest.mark.parametrize("shape", [(), (5,), (2, 0, 3)])
def test_unknown_rank_takes_any_shape(shape):
    arrays, _ = check_inputs(PLACE, served(spec("a", "FP32", None)), [tensor("a", "FP32", shape)])

    assert arrays["a"].shape == shape


@pytest.mark.parametrize("count", [0, 1, 4, 9])
def test_rows_are_the_first_dimension_also_none_and_more_than_a_batch_takes(count):
    assert check_inputs(PLACE, served(A), [tensor("a", "FP32", (count, 2))])[1] == count


def test_typed_data_are_taken_too():
    arrays, rows = check_inputs(PLACE, served(A), [tensor("a", "FP32", (2, 2), np.arange(4, dtype=np.float32))])

    assert (arrays["a"].tolist(), rows) == ([[0, 1], [2, 3]], 2)


# What is wrong. --------------------------------------------------------------------------------------------------


def test_every_fault_names_request_model_version_and_signature():
    place = Place("clip:f", 7, "f", "seven")
    with pytest.raises(InvalidArgumentError) as caught:
        check_inputs(place, served(A), [])

    assert str(caught.value).startswith("[request id: seven] ")
    assert str(caught.value).endswith("(model 'clip:f' version 7, signature 'f')")
    assert fault(served(A)).startswith("[request id: <id_unknown>] ")


@pytest.mark.parametrize(
    ("tensors", "texts"),
    [
        (
            [],
            ["expected 2 inputs but got 0 inputs", "missing required input(s) ['a','b']", "a FP32[-1,2], b INT64[-1]"],
        ),
        (
            [("a", "FP32", (1, 2))],
            [
                "expected 2 inputs but got 1 inputs for model 'clip'. Got input(s) ['a'], but missing",
                "missing required input(s) ['b']. Please provide all required input(s).",
            ],
        ),
        ([("a", "FP32", (1, 2)), ("c", "INT64", (1,))], ["missing required input(s) ['b']", "input(s) ['c']"]),
        ([("a", "FP32", (1, 2)), ("b", "INT64", (1,)), ("c", "INT64", (1,))], ["2 inputs but got 3", "['c']"]),
        ([("a", "FP32", (1, 2)), ("b", "INT64", ())], ["'b' has no shape but model requires batch dimension"]),
        ([("a", "FP32", (1, 2)), ("b", "INT64", (2,))], ["'b' batch size does not match", "2 rows, but 'a' has 1"]),
        ([("a", "FP64", (1, 2)), ("b", "INT64", (1,))], ["'a' data-type is 'FP64', but model 'clip' expects 'FP32'"]),
        ([("a", "fp32", (1, 2)), ("b", "INT64", (1,))], ["'fp32'", "expects 'FP32'"]),
        (
            [("a", "FP32", (1, 3)), ("b", "INT64", (1,))],
            ["unexpected shape for input 'a'", "Expected [-1,2], got [1,3]"],
        ),
        ([("a", "FP32", (1,)), ("b", "INT64", (1,))], ["Expected [-1,2], got [1]"]),
        ([("a", "FP32", (-1, 2)), ("b", "INT64", (-1,))], ["All input dimensions should be specified", "[-1,2]"]),
        ([("a", "FP32", (1, -2)), ("b", "INT64", (1,))], ["All input dimensions should be specified", "[1,-2]"]),
        ([("a", "FP32", (2**62, 2)), ("b", "INT64", (2**62,))], [f"Expected {2**65}, got", "'a'"]),
        ([("a", "FP32", (2**63 - 1, 2)), ("b", "INT64", (2**63 - 1,))], ["byte size mismatch"]),
    ],
)
def test_wrong_tensors_are_told_with_what_was_expected(tensors, texts):
    told = fault(served(A, B), *(tensor(*each) for each in tensors))

    for text in texts:
        assert text in told


@pytest.mark.parametrize("count", [1, 3])
def test_signature_without_inputs_takes_none(count):
    told = fault(served(), *(tensor(f"x{number}", "FP32", (1,)) for number in range(count)))

    assert f"expected 0 inputs but got {count} inputs" in told
    assert "The signature takes: none" in told


@pytest.mark.parametrize("size", [0, 7, 9, 16])
def test_data_of_another_size_than_the_shape_needs_are_refused(size):
    told = fault(served(A), tensor("a", "FP32", (1, 2), bytes(size)))

    assert "byte size mismatch for input 'a' for model 'clip' with datatype FP32 and shape [1,2]. Expected 8" in told
    assert f"got {size}" in told


@pytest.mark.parametrize("data", [b"\1\0\0", b"\2\0\0\0a", b"", b"\0\0\0\0" * 2])
def test_wrong_strings_are_refused(data):
    told = fault(served(spec("s", "BYTES", (-1,))), tensor("s", "BYTES", (1,), data))

    assert "wrong string elements for input 's'" in told


def test_too_many_rows_are_refused_where_requests_are_not_cut():
    signature = served(A, oversize=Oversize.REJECT)

    assert "batch-size must be <= 4 for 'clip', got 5 rows" in fault(signature, tensor("a", "FP32", (5, 2)))
    assert check_inputs(PLACE, signature, [tensor("a", "FP32", (4, 2))])[1] == 4


def test_too_many_rows_without_elements_are_refused():
    """They cost the caller nothing to send, but each would be a row of the output."""
    signature = served(spec("a", "FP32", (-1, -1)))

    assert "5 rows without elements; at most 4 are allowed" in fault(signature, tensor("a", "FP32", (5, 0)))
    assert check_inputs(PLACE, signature, [tensor("a", "FP32", (4, 0))])[1] == 4
    assert "5 rows without elements" in fault(signature, tensor("a", "FP32", (5, 0), np.empty(0, np.float32)))


@pytest.mark.timeout(20)
@pytest.mark.parametrize("sizes", [None, (-1, 2)])
def test_more_axes_than_a_tensor_can_have_are_refused_in_no_time(sizes):
    """Multiplying so many sizes took minutes."""
    signature = served(spec("a", "FP32", sizes), max_batch_size=0)

    told = fault(signature, InputTensor("a", "FP32", (2**62,) * 200_000, b""))
    assert "200000 dimensions; at most 64 are allowed" in told


@pytest.mark.parametrize("shape", [(0, 2**24 + 1), (2**13, 0, 2**13), (2**40, 0)])
def test_huge_shape_without_elements_is_refused(shape):
    signature = served(spec("a", "FP32", (-1,) * len(shape)), outputs=(spec("y", shape=()),))

    assert "a shape as large as" in fault(signature, tensor("a", "FP32", shape))


# The first fault wins. ---------------------------------------------------------------------------------------------


def test_faults_are_told_in_tritons_order():
    """Each request has the faults of all before it mended, and the next one is told."""
    signature = served(A, B, oversize=Oversize.REJECT)
    short = b"1"
    steps = [
        ([("c", "NO", (), short)], "expected 2 inputs but got 1"),
        ([("a", "NO", (), short), ("c", "NO", (9,), short)], "unexpected inference input(s) ['c']"),
        ([("a", "NO", (), short), ("b", "NO", (9,), short)], "'a' has no shape"),
        ([("a", "NO", (8, 9), short), ("b", "NO", (9,), short)], "batch size does not match"),
        ([("a", "NO", (9, 9), short), ("b", "NO", (9,), short)], "batch-size must be <= 4"),
        ([("a", "NO", (1, 9), short), ("b", "INT64", (1,), short)], "data-type is 'NO'"),
        ([("a", "FP32", (1, 9), short), ("b", "INT64", (1,), bytes(8))], "unexpected shape"),
        ([("a", "FP32", (1, 2), short), ("b", "INT64", (1,), bytes(8))], "byte size mismatch"),
    ]
    for tensors, text in steps:
        assert text in fault(signature, *(tensor(*each) for each in tensors))


# Outputs. --------------------------------------------------------------------------------------------------------

TWO = Signature("f", (A,), (Y, Z))


@pytest.mark.parametrize(("names", "wanted"), [([], (Y, Z)), (["y"], (Y,)), (["z", "y"], (Y, Z)), (["z"], (Z,))])
def test_outputs_come_in_the_signatures_order_and_none_means_all(names, wanted):
    assert check_outputs(PLACE, TWO, names) == wanted


@pytest.mark.parametrize("name", ["", "a", "Y", "nope"])
def test_unknown_output_is_refused_with_those_there_are(name):
    with pytest.raises(InvalidArgumentError) as caught:
        check_outputs(PLACE, TWO, ["y", name])

    assert f"unexpected inference output '{name}'" in str(caught.value)
    assert "y FP32[-1,2], z FP32[-1,2]" in str(caught.value)


def test_signature_without_outputs_answers_none():
    assert check_outputs(PLACE, Signature("f", (A,), ()), []) == ()
