"""Signatures are found by the rules of the default and of aliases, and a version finishes what it took."""

import numpy as np
import pytest

from batching.options import Oversize
from batching.task import Task
from service.errors import InvalidArgumentError, NotFoundError, UnavailableError
from service.model_statistics import FailureReason
from service.signature import Effect
from tests.fakes import FakeServable, signature, spec
from tests.service.serving import WAIT_S, Gate, double, kit, model_version, rows


@pytest.fixture
def version():
    """Make versions that are closed when the test ends."""
    made = []

    def make(servable, **options):
        made.append(model_version(servable, **options))
        return made[-1]

    yield make
    for each in made:
        each.close(WAIT_S)


DEFAULT_IS_A = 'parameters { key: "TF_SIGNATURE_DEF" value { string_value: "a" } }'


def tiny(*names, **more):
    return FakeServable(*((signature(name, [spec("x")], [spec("y")]), double) for name in names), **more)


@pytest.mark.parametrize(
    ("names", "options", "default"),
    [
        (["a", "serving_default"], {}, "serving_default"),
        (["only"], {}, "only"),
        (["a", "b"], {"default_signature": "b"}, "b"),
        (["a", "b", "serving_default"], {"config": DEFAULT_IS_A}, "a"),
        (
            ["a", "b"],
            {"config": DEFAULT_IS_A, "default_signature": "b"},
            "a",
        ),
    ],
)
def test_default_signature_is_the_configured_one_then_serving_default_then_the_only_one(
    version, names, options, default
):
    loaded = version(tiny(*names), **options)

    assert loaded.find_signature(None).signature.name == default
    assert loaded.find_signature("").signature.name == default


def test_without_a_default_a_request_must_name_one_of_the_list(version):
    loaded = version(tiny("b", "a"), version=3)

    with pytest.raises(InvalidArgumentError, match=r"'clip' version 3 has no default signature.*'signature'.*'b', 'a'"):
        loaded.find_signature(None)
    assert loaded.find_signature("a").signature.name == "a"


def test_default_that_cannot_be_run_is_unavailable_and_no_other_takes_its_place(version):
    loaded = version(tiny("a", unavailable={"serving_default": "no such op"}))

    with pytest.raises(UnavailableError, match=r"'serving_default' of model 'clip' version 1.*no such op"):
        loaded.find_signature(None)


def test_unknown_signature_is_an_invalid_parameter_but_an_alias_that_is_not_found(version):
    loaded = version(tiny("a", "b"))

    with pytest.raises(InvalidArgumentError, match=r"no signature 'c'; available: 'a', 'b'"):
        loaded.find_signature("c")
    with pytest.raises(NotFoundError, match=r"no signature 'c'; available: 'a', 'b'"):
        loaded.find_alias("c")
    with pytest.raises(NotFoundError, match="no signature ''"):
        loaded.find_alias("")


def test_signature_that_cannot_be_run_is_unavailable_under_either_name(version):
    loaded = version(kit())

    for find in (loaded.find_signature, loaded.find_alias):
        with pytest.raises(UnavailableError, match="no such node"):
            find("broken")


@pytest.mark.parametrize(
    ("name", "oversize", "cuts"),
    [
        ("serving_default", Oversize.CUT, True),
        ("serving_default", Oversize.REJECT, False),
        ("sum", Oversize.CUT, False),
        ("store", Oversize.CUT, False),
    ],
)
def test_only_requests_that_can_be_joined_can_be_cut(version, name, oversize, cuts):
    assert version(kit(), oversize=oversize).find_signature(name).cuts_oversize is cuts


def test_requests_see_the_tensors_as_configured(version):
    loaded = version(
        kit(), config='max_batch_size: 4 input { name: "x" dims: 2 } output { name: "y" dims: 2 data_type: TYPE_FP32 }'
    )
    served = loaded.find_signature(None)

    assert served.max_batch_size == 4
    assert [str(each) for each in served.signature.inputs] == ["x FP32[-1,2]"]


def test_counters_are_those_of_one_signature_or_of_all(version):
    loaded = version(kit())
    for name, count in (("embed", 2), ("serving_default", 1)):
        for _ in range(count):
            loaded.find_signature(name).statistics.record_failure(10, FailureReason.BACKEND)

    assert loaded.statistics("embed").fail.count == 2
    assert loaded.statistics().fail.count == 3


def test_close_finishes_what_waits_and_then_frees_the_weights():
    gate = Gate()
    servable = FakeServable((signature("store", [spec("x")], [spec("y")], Effect.WRITING), gate))
    loaded = model_version(servable)
    served, ends = loaded.find_signature("store"), []

    def done(task, result):
        ends.append((result.outputs["y"].tolist(), servable.closed))

    for number in (1, 2):
        key = ("clip", 1, "store", ())
        loaded.scheduler.submit(Task(key, 1, {"x": rows(number)}, ("y",), served.options, done))
    gate.wait_until_entered()
    gate.opened.set()
    loaded.close(WAIT_S)

    assert ends == [([[2, 2]], False), ([[4, 4]], False)]
    assert servable.closed


def test_close_fails_what_still_waits_after_the_timeout_and_waits_for_what_runs():
    gate = Gate()
    servable = FakeServable((signature("store", [spec("x")], [spec("y")], Effect.WRITING), gate))
    loaded = model_version(servable)
    served, ends = loaded.find_signature("store"), []

    def done(task, result):
        ends.append(result.error if result.error is None else type(result.error).__name__)
        gate.opened.set()  # the one that runs may end once the one that waits has failed

    key = ("clip", 1, "store", ())
    loaded.scheduler.submit(Task(key, 1, {"x": rows(1)}, ("y",), served.options, done))
    gate.wait_until_entered()
    loaded.scheduler.submit(Task(key, 1, {"x": rows(2)}, ("y",), served.options, done))
    loaded.close(0)

    assert ends == ["StoppedError", None]
    assert servable.closed
    assert servable.runs == [("store", 1, ("y",))]


def test_number_of_workers_is_the_instance_count(version):
    gate = Gate(lambda inputs: {"y": np.zeros((1, 2), np.float32)})
    loaded = version(kit(store=gate), instance_count=3)
    served, tasks = loaded.find_signature("store"), []
    for number in range(4):
        tasks.append(Task(("clip", 1, "store", ()), 1, {"x": rows(number)}, ("y",), served.options, lambda *_: None))
        loaded.scheduler.submit(tasks[-1])
    for _ in range(3):
        gate.wait_until_entered()

    counts = loaded.scheduler.counts()
    gate.opened.set()

    assert (counts.running_tasks, counts.queued_tasks) == (3, 1)


RESHAPED = """
max_batch_size: 4
input { name: "x" dims: [ 1 ] reshape { shape: [ ] } }
output { name: "y" dims: [ 1, 1 ] reshape { shape: [ ] } }
"""


def test_callers_and_the_model_may_see_different_shapes(version):
    shapes = []

    def note(inputs):
        shapes.append(inputs["x"].shape)
        return double(inputs)

    flat = signature("serving_default", [spec("x", shape=(-1,))], [spec("y", shape=(-1,))])
    loaded = version(FakeServable((flat, note)), config=RESHAPED)
    served = loaded.find_signature(None).signature

    assert [each.shape for each in (*served.inputs, *served.outputs)] == [(-1, 1), (-1, 1, 1)]
    assert loaded.run("serving_default", {"x": np.ones((3, 1), np.float32)}, ["y"])["y"].tolist() == [[[2.0]]] * 3
    assert shapes == [(3,)]


def test_a_signature_is_served_as_configured(version):
    wide = signature("a", [spec("x", shape=(-1, -1))], [spec("y"), spec("z")])
    config = 'max_batch_size: 4 input { name: "x" dims: [ 2 ] } output { name: "z" }'
    served = version(FakeServable((wide, double)), config=config).find_signature(None).signature

    assert [each.shape for each in served.inputs] == [(-1, 2)]
    assert [each.name for each in served.outputs] == ["z"]
