import dataclasses

import pytest

from service.datatypes import BYTES, DATATYPES
from service.signature import OPEN, Effect, Signature, TensorSpec

FP32 = DATATYPES["FP32"]


def spec(shape, name="x"):
    return TensorSpec(name, FP32, shape)


@pytest.mark.parametrize(
    ("shape", "accepted", "refused"),
    [
        (None, [(), (0,), (2, 3, 4)], []),
        ((), [()], [(1,), (0,)]),
        ((OPEN,), [(0,), (1,), (10**9,)], [(), (1, 1)]),
        ((OPEN, 3), [(0, 3), (5, 3)], [(3,), (5, 4), (5, 0), (5, 3, 1)]),
        ((2, OPEN, 4), [(2, 0, 4), (2, 7, 4)], [(1, 7, 4), (2, 7, 5)]),
        ((0,), [(0,)], [(1,)]),
    ],
)
def test_a_spec_accepts_its_rank_and_fixed_sizes(shape, accepted, refused):
    assert [got for got in accepted if not spec(shape).accepts(got)] == []
    assert [got for got in refused if spec(shape).accepts(got)] == []


@pytest.mark.parametrize(
    ("shape", "is_open"), [(None, False), ((), False), ((1, OPEN), False), ((OPEN,), True), ((OPEN, 3), True)]
)
def test_a_first_dimension_is_open_only_when_it_is_there(shape, is_open):
    assert spec(shape).has_open_first_dimension is is_open


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (spec((OPEN, 3)), "x FP32[-1,3]"),
        (spec(()), "x FP32[]"),
        (spec(None), "x FP32[?]"),
        (TensorSpec("text", BYTES, (OPEN,), optional=True), "text BYTES[-1]"),
    ],
)
def test_a_spec_reads_as_name_datatype_and_shape(tensor, text):
    assert str(tensor) == text


def test_tensors_are_found_by_name_on_their_own_side():
    signature = Signature("f", (spec((OPEN,), "a"), spec((2,), "b")), (spec((OPEN,), "c"),))

    assert signature.input("b") is signature.inputs[1]
    assert signature.output("c") is signature.outputs[0]
    assert signature.input("c") is None
    assert signature.output("a") is None


def test_the_tables_of_names_follow_a_replacement():
    signature = dataclasses.replace(Signature("f", (spec((2,)),), ()), inputs=(spec((3,)),))

    assert signature.input("x").shape == (3,)


BATCHABLE = Signature("f", (spec((OPEN, 2)),), (spec((OPEN,), "y"),))


@pytest.mark.parametrize("effect", [Effect.PURE, Effect.RANDOM])
def test_open_first_dimensions_make_a_signature_batchable(effect):
    signature = dataclasses.replace(BATCHABLE, effect=effect)

    assert signature.batchable
    assert signature.why_not_batchable is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"effect": Effect.WRITING}, "writes"),
        ({"inputs": ()}, "no inputs"),
        ({"inputs": (spec((OPEN, 2)), spec((4, 2), "w"))}, "input w FP32[4,2] has no open first dimension"),
        ({"inputs": (spec(None),)}, "input x FP32[?] has no open first dimension"),
        ({"inputs": (spec(()),)}, "input x FP32[] has no open first dimension"),
        (
            {"inputs": (spec((OPEN, 2)), dataclasses.replace(spec((OPEN, 1), "w"), optional=True))},
            "input w FP32[-1,1] may be left out",
        ),
        ({"outputs": (spec((), "y"),)}, "output y FP32[] has no open first dimension"),
        ({"mixes_rows": "output y depends on the other rows"}, "output y depends on the other rows"),
    ],
)
def test_what_keeps_a_signature_from_being_batched_is_named(change, reason):
    signature = dataclasses.replace(BATCHABLE, **change)

    assert not signature.batchable
    assert reason in signature.why_not_batchable
