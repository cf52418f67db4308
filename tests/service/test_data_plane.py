"""The path of one request: what is refused, what is answered, and what becomes of failures."""

import pytest

from service.codec import MessageRequest
from service.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)
from service.request import InferResponse
from tests.service.serving import Answer, Gate, counters, kit, message, outputs, rows, serving

# Answers. --------------------------------------------------------------------------------------------------------


def test_answer_carries_name_version_id_and_outputs():
    with serving({"clip": {7: kit()}}) as served:
        response = served.send(message({"x": rows(1, 2)}, version="07", request_id="h\u00e9"))

    assert outputs(response) == {"y": [[2, 2], [4, 4]]}
    assert (response.form.model_name, response.form.model_version, response.id) == ("clip", "7", "h\u00e9")


@pytest.mark.parametrize(
    ("model", "parameters", "name", "told"),
    [
        ("clip", {}, "y", None),
        ("clip", {"signature": ""}, "y", None),
        ("clip", {"signature": "embed"}, "z", "embed"),
        ("clip:embed", {}, "z", "embed"),
        ("clip:embed", {"signature": "embed"}, "z", "embed"),
        ("clip:embed", {"signature": ""}, "z", "embed"),
    ],
)
def test_signature_is_named_by_parameter_or_model_name_and_told_where_it_was_named(model, parameters, name, told):
    with serving(kit()) as served:
        response = served.send(message(model=model, **parameters))

    assert list(outputs(response)) == [name]
    assert response.form.model_name == model
    assert response.form.signature == told


def test_only_the_wanted_outputs_are_run_and_answered():
    with serving({"clip": {1: (servable := kit())}}) as served:
        response = served.send(message(outputs=["y"]))

    assert list(outputs(response)) == ["y"]
    assert servable.runs == [("serving_default", 1, ("y",))]


def test_signature_of_a_name_with_colons_is_found_in_the_model_of_that_name():
    with serving({"clip": {1: kit()}, "clip:v2": {3: kit()}}) as served:
        plain = served.send(message(model="clip:v2"))
        alias = served.send(message(model="clip:v2:embed"))
        missing = served.send(message(model="clip:v2:embed:more"))

    assert (plain.form.model_version, list(outputs(plain))) == ("3", ["y"])
    assert (alias.form.model_version, list(outputs(alias))) == ("3", ["z"])
    assert isinstance(missing, NotFoundError)
    assert "model 'clip:v2' version 3 has no signature 'embed:more'" in str(missing)


# Refusals. -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "kind", "text"),
    [
        (message(model="nope"), NotFoundError, "unknown model: 'nope'"),
        (message(version="2"), NotFoundError, "version 2 is not found"),
        (message(version="x", model="nope"), InvalidArgumentError, "'x'"),
        (message(signature="nope"), InvalidArgumentError, "no signature 'nope'"),
        (message(signature=3), InvalidArgumentError, "'signature' parameter, expected string_param"),
        (message(model="clip:nope"), NotFoundError, "no signature 'nope'"),
        (message(signature="broken"), UnavailableError, "no such node"),
        (message(model="clip:broken"), UnavailableError, "no such node"),
        (message(model="clip:embed", signature="sum"), InvalidArgumentError, "asks for signature 'embed'.*for 'sum'"),
        (message(model="clip:nope", signature="sum"), InvalidArgumentError, "asks for signature 'nope'.*for 'sum'"),
        (message(priority=-1), InvalidArgumentError, "priority"),
        (message(sequence_id="x" * 129), UnimplementedError, "128"),
        (message(outputs=["nope"]), InvalidArgumentError, "'nope'"),
        (message({}), InvalidArgumentError, r"missing required input\(s\) \['x'\]"),
        (message({"x": rows(1)}, signature="text"), InvalidArgumentError, r"unexpected inference input\(s\) \['x'\]"),
    ],
)
def test_refused_request_is_told_why_and_counted_nowhere(request_, kind, text):
    with serving(kit()) as served:
        answer, ticket = served.submit(request_)
        came_at_once = answer.came
        ticket.cancel()
        counted = counters(served.statistics("clip"))

    assert came_at_once
    assert type(answer.wait()) is kind
    with pytest.raises(kind, match=text):
        raise answer.wait()
    assert counted == {"success": 0, "fail": 0, "rows": 0, "runs": 0, "sizes": {}}


def test_faults_are_told_in_tritons_order():
    """A request with every fault; each is mended in turn, and the next one is told."""
    request = message({"c": rows(1), "x": rows(1, 2)}, model="nope", version="x", outputs=["u", "u"], signature=1)
    request.inputs.add(name="c", datatype="FP32", shape=(1, 2))
    request.raw_input_contents[1] = b"short"
    request.raw_input_contents.append(b"")
    with serving(kit()) as served:

        def told():
            return str(served.send(request))

        assert "specified version string 'x'" in told()
        request.model_version = ""
        assert "unknown model: 'nope'" in told()
        request.model_name = "clip"
        assert "'signature' parameter, expected string_param" in told()
        request.parameters["signature"].string_param = "nope"
        assert "no signature 'nope'" in told()
        request.parameters["signature"].string_param = "embed"
        assert "input 'c' already exists" in told()
        del request.inputs[2]
        assert "output 'u' already exists" in told()
        del request.outputs[1]
        assert "unexpected inference output 'u'" in told()
        del request.outputs[0]
        assert "expected 1 inputs but got 2" in told()
        del request.inputs[0], request.raw_input_contents[0]
        assert "byte size mismatch" in told()
        request.raw_input_contents[0] = rows(1, 2).tobytes()
        assert isinstance(served.send(request), InferResponse)


def test_missing_data_are_told_before_an_unknown_output():
    request = message(outputs=["u"])
    request.ClearField("raw_input_contents")
    with serving(kit()) as served:
        assert "unable to find data for input tensor 'x'" in str(served.send(request))


def test_defect_while_a_request_is_read_is_an_internal_error_of_that_request_alone(caplog):
    class Broken(MessageRequest):
        def inputs(self):
            raise RuntimeError("a defect")

    with serving(kit()) as served:
        answer = Answer()
        served.answers.append(answer)
        served.data_plane.submit(Broken(message()), None, answer).cancel()
        after = served.send(message())

    assert type(answer.wait()) is InternalError
    assert "a defect" not in str(answer.wait())
    assert "a defect" in caplog.text
    assert outputs(after) == {"y": [[2, 2]]}


# Failures in the model. ------------------------------------------------------------------------------------------


def fail(error):
    def function(inputs):
        raise error

    return function


def test_models_own_failure_is_handed_on():
    with serving(kit(embed=fail(InternalError("matrix is singular")))) as served:
        answer = served.send(message(signature="embed"))
        counted = counters(served.statistics("clip:embed"))

    assert type(answer) is InternalError
    assert str(answer) == "matrix is singular"
    assert counted == {"success": 0, "fail": 1, "rows": 0, "runs": 1, "sizes": {1: 1}}


@pytest.mark.parametrize(
    "error", [ValueError("secret"), KeyError("secret"), MemoryError(), SystemExit(3), StopIteration()], ids=repr
)
@pytest.mark.parametrize("signature", ["serving_default", "sum", "store", "threshold"])
def test_anything_else_that_a_run_raises_is_an_internal_error_and_the_worker_goes_on(caplog, signature, error):
    with serving(kit(**{signature: fail(error)})) as served:
        answer = served.send(message({} if signature == "threshold" else None, signature=signature))
        after = served.send(message(signature="embed"))
        counted = counters(served.statistics(f"clip:{signature}"))

    assert type(answer) is InternalError
    assert "secret" not in str(answer)
    assert f"signature '{signature}'" in str(answer)
    assert isinstance(after, InferResponse)
    assert type(error).__name__ in caplog.text
    assert (counted["fail"], counted["success"]) == (1, 0)


@pytest.mark.parametrize("signature", ["embed", "sum", "store"])
def test_output_that_the_run_left_out_is_an_internal_error(caplog, signature):
    with serving(kit(**{signature: lambda inputs: {}})) as served:
        answer = served.send(message(signature=signature))

    assert type(answer) is InternalError
    assert "did not answer the outputs" in caplog.text


def test_output_that_is_no_array_is_an_internal_error(caplog):
    with serving(kit(embed=lambda inputs: {"z": None})) as served:
        answer = served.send(message(signature="embed"))

    assert type(answer) is InternalError
    assert "unexpected error" in caplog.text


def test_failing_request_of_a_batch_fails_alone():
    gate = Gate(lambda inputs: {"y": 1 / inputs["x"]} if (inputs["x"] > 0).all() else fail(InternalError("poison"))(0))
    with serving(kit(serving_default=gate)) as served:
        first, _ = served.submit(message())
        gate.wait_until_entered()
        others = [served.submit(message({"x": rows(number)}))[0] for number in (1, 2, -1, 4)]
        gate.opened.set()
        answers = [answer.wait() for answer in (first, *others)]
        counted = counters(served.statistics("clip:serving_default"))

    assert [type(answer) for answer in answers] == [InferResponse] * 3 + [InternalError] + [InferResponse]
    assert outputs(answers[4]) == {"y": [[0.25, 0.25]]}
    assert (counted["success"], counted["fail"], counted["rows"]) == (4, 1, 4)


def test_outputs_with_another_number_of_rows_are_never_divided(caplog):
    """The signature claims that outputs have a row per row of the inputs, but its model adds up all rows."""
    gate = Gate(lambda inputs: {"y": inputs["x"].sum(axis=0, keepdims=True)})
    with serving(kit(serving_default=gate)) as served:
        first, _ = served.submit(message())
        gate.wait_until_entered()
        others = [served.submit(message({"x": rows(*numbers)}))[0] for numbers in [(2,), (3, 4), (5, 6, 7)]]
        gate.opened.set()
        answers = [outputs(answer.wait())["y"][0][0] for answer in (first, *others)]

    assert answers == [1, 2, 7, 18]
