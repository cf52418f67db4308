"""Requests of a form that was seen before are checked by their data alone, and are served as if they were the first."""

import numpy as np
import pytest

from service.codec import MessageRequest
from service.errors import InvalidArgumentError, NotFoundError
from service.plans import find_plan
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import kit, message, outputs, rows, serving


def plan_of(served, sent):
    plan, _, arrays, nbytes = find_plan(served.repository, MessageRequest(sent.SerializeToString()))
    return plan, arrays, nbytes


def test_requests_that_differ_in_id_and_data_have_one_plan():
    with serving(kit()) as served:
        first, _, _ = plan_of(served, message(request_id="a"))
        again, arrays, nbytes = plan_of(served, message({"x": rows(7)}, request_id="b"))

    assert again is first
    np.testing.assert_array_equal(arrays["x"], rows(7), strict=True)
    assert nbytes == 8


@pytest.mark.parametrize(
    "other",
    [
        message(version="1"),
        message(model="clip:serving_default"),
        message(signature="serving_default"),
        message(priority=1),
        message(timeout=1),
        message({"x": rows(1, 2)}),
        message(outputs=["y"]),
    ],
)
def test_requests_that_differ_in_anything_else_have_plans_of_their_own(other):
    with serving(kit()) as served:
        first, _, _ = plan_of(served, message())
        second, _, _ = plan_of(served, other)

    assert second is not first


@pytest.mark.parametrize("cut", [0, 4, 12])
def test_data_of_another_size_are_refused_with_the_words_for_a_first_request(cut):
    wrong = message()
    wrong.raw_input_contents[0] = bytes(cut)
    with serving(kit()) as served:
        first = served.send(wrong)
        served.send(message())
        again = served.send(wrong)

    assert isinstance(again, InvalidArgumentError)
    assert str(again) == str(first)


def test_wrong_strings_are_refused_with_the_words_for_a_first_request():
    good = message({"s": np.array([b"a"], object)}, signature="text")
    wrong = message({"s": np.array([b"a"], object)}, signature="text")
    wrong.raw_input_contents[0] = b"\x09\0\0\0a"
    with serving(kit()) as served:
        first = served.send(wrong)
        assert outputs(served.send(good)) == {"s": [b"a"]}
        assert outputs(served.send(good)) == {"s": [b"a"]}
        again = served.send(wrong)

    assert isinstance(again, InvalidArgumentError)
    assert str(again) == str(first)


def test_request_without_the_data_of_the_one_before_is_refused():
    bare = message()
    del bare.raw_input_contents[:]
    with serving(kit()) as served:
        served.send(message())

        assert isinstance(served.send(bare), InvalidArgumentError)


def test_inputs_are_paired_with_their_data_in_the_order_of_the_request():
    """The request names them in another order than the signature."""
    x, k = spec("x"), spec("k")
    servable = FakeServable((signature("f", [k, x], [spec("y")]), lambda got: {"y": got["x"] - got["k"]}))
    with serving(servable) as served:
        answers = [served.send(message({"x": rows(5), "k": rows(number)})) for number in (1, 2)]

    assert [outputs(answer)["y"] for answer in answers] == [[[4, 4]], [[3, 3]]]


def test_typed_contents_are_read_of_every_request_anew():
    def typed(*numbers):
        sent = message()
        del sent.raw_input_contents[:]
        sent.inputs[0].contents.fp32_contents.extend(numbers)
        return sent

    with serving(kit()) as served:
        answers = [served.send(typed(number, number)) for number in (1, 2)]
        assert len(served.repository.known_requests) == 0

    assert [outputs(answer)["y"] for answer in answers] == [[[2, 2]], [[4, 4]]]


def test_forms_that_clients_invent_do_not_pile_up():
    with serving(kit()) as served:
        for priority in range(3000):
            plan_of(served, message(priority=priority))
        assert 0 < len(served.repository.known_requests) <= 1024
        kept = len(served.repository.known_requests)
        plan_of(served, message(custom="x" * 5000))
        assert len(served.repository.known_requests) == kept


# Models that change. ---------------------------------------------------------------------------------------------


def test_nothing_is_remembered_of_a_model_that_was_unloaded():
    with serving(kit()) as served:
        served.send(message())
        served.repository.unload("clip")

        assert len(served.repository.known_requests) == 0
        assert isinstance(served.send(message()), NotFoundError)


def test_model_with_the_name_of_an_alias_wins_as_soon_as_it_is_known():
    with serving({"clip": {1: kit()}}) as served:
        assert outputs(served.send(message(model="clip:embed")))["z"]
        served.repository.refuse("clip:embed", "its files are wrong")

        assert isinstance(served.send(message(model="clip:embed")), NotFoundError)
