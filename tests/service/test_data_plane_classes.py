"""An output that is asked for as classes is answered as BYTES; the others stay what they are."""

import numpy as np
import pytest

from service.datatypes import BYTES
from service.errors import InvalidArgumentError
from tests.service.serving import counters, kit, message, rows, serving


def asking(inputs=None, *, count=1, output="y", **options):
    request = message(inputs, outputs=[output], **options)
    request.outputs[0].parameters["classification"].int64_param = count
    return request


def test_classes_take_the_place_of_the_tensor():
    with serving(kit()) as served:
        response = served.send(asking({"x": np.array([[1, 2], [4, 3]], np.float32)}, count=5))

    ((spec, array),) = response.outputs
    assert (spec.name, spec.datatype) == ("y", BYTES)
    assert array.tolist() == [[b"4.000000:1", b"2.000000:0"], [b"8.000000:0", b"6.000000:1"]]


def test_without_a_batch_dimension_the_answer_is_one_list():
    with serving(kit()) as served:
        response = served.send(asking({"x": rows(1, 2)}, output="s", signature="sum"))

    assert [array.tolist() for _, array in response.outputs] == [[b"6.000000:0"]]


def test_members_of_a_batch_get_what_each_asked_for():
    with serving(kit()) as served:
        plain, classes = served.send(message()), served.send(asking())

    assert [array.tolist() for _, array in plain.outputs] == [[[2, 2]]]
    assert [array.tolist() for _, array in classes.outputs] == [[[b"2.000000:0"]]]


def test_a_datatype_without_classes_is_refused_once_it_was_run():
    with serving(kit()) as served:
        failure = served.send(asking({"s": np.array([b"a", b"b"], object)}, output="s", signature="text"))
        counted = counters(served.statistics("clip:text"))

    assert isinstance(failure, InvalidArgumentError)
    assert str(failure) == (
        "class result not available for output due to unsupported type 'BYTES' "
        "(output s BYTES[-1], model 'clip' version 1, signature 'text')"
    )
    assert (counted["success"], counted["runs"]) == (1, 1)


@pytest.mark.parametrize("output", ["nope", "x"])
def test_classes_of_an_unknown_output_are_refused(output):
    with serving(kit()) as served:
        failure = served.send(asking(output=output))

    assert isinstance(failure, InvalidArgumentError)
    assert f"unexpected inference output '{output}'" in str(failure)
