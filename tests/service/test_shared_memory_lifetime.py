"""Regions that change, shrink or are unregistered while requests use them, and requests that end in every way."""

import pytest

from service.errors import CancelledError, InternalError, InvalidArgumentError
from service.system_region import SystemRegion
from tests.memory_objects import memory_objects
from tests.service.serving import Busy, Gate, kit, rows, serving
from tests.service.test_shared_memory_inference import infer, is_unused, register, request, start


@pytest.fixture
def make():
    with memory_objects() as making:
        yield making


@pytest.fixture
def source(make):
    made = make(4096)
    made.write(rows(1))
    return made


@pytest.fixture
def target(make):
    return make(4096)


def held():
    """A kit whose default signature waits at a gate, and that gate."""
    gate = Gate()
    return kit(serving_default=gate), gate


# Changes. --------------------------------------------------------------------------------------------------------


def test_an_input_that_changes_after_the_request_was_taken_changes_nothing(source, target):
    with Busy() as busy:
        register(busy.served, "in", source)
        register(busy.served, "out", target)
        answer, _ = start(busy.served, request(outputs={"y": ("out", 8)}))
        source.write(rows(9))
        busy.gate.opened.set()
        answer.wait()

    assert target.content()[:8] == (rows(1) * 2).tobytes()


@pytest.mark.parametrize("left", [0, 7])
def test_an_input_in_an_object_that_was_shrunk_is_an_invalid_argument(source, left):
    with serving(kit()) as served:
        register(served, "in", source)
        source.resize(left)
        failure = infer(served, request())
        source.resize(4096)

        assert isinstance(failure, InvalidArgumentError)
        assert f"was shrunk to {left} bytes" in str(failure)
        assert not isinstance(infer(served, request()), InvalidArgumentError)


def test_an_output_to_an_object_that_is_shrunk_while_the_model_runs_is_an_internal_error(source, target):
    servable, gate = held()
    with serving(servable) as served:
        register(served, "in", source)
        register(served, "out", target)
        answer, _ = start(served, request(outputs={"y": ("out", 8)}))
        gate.wait_until_entered()
        target.resize(7)
        gate.opened.set()
        failure = answer.wait()
        assert is_unused(served)

    assert isinstance(failure, InternalError)
    assert "was shrunk to 7 bytes" in str(failure)
    assert target.content() == bytes(7)


# Unregistered in use. --------------------------------------------------------------------------------------------


def test_unregistering_waits_for_the_request_that_uses_the_region(source, target):
    servable, gate = held()
    with serving(servable) as served:
        register(served, "in", source)
        register(served, "out", target)
        answer, _ = start(served, request(outputs={"y": ("out", 8)}))
        gate.wait_until_entered()
        served.regions.unregister(SystemRegion)
        assert served.regions.registered(SystemRegion) == []
        gate.opened.set()
        assert isinstance(answer.wait(), bytes)

        assert repr(served.regions) == "Regions(registered=0, open=0, in_use=0)"
    assert target.content()[:8] == (rows(1) * 2).tobytes()


def test_a_new_region_of_the_name_gets_nothing_of_a_request_that_used_the_old_one(make, source, target):
    other = make(4096)
    servable, gate = held()
    with serving(servable) as served:
        register(served, "in", source)
        register(served, "out", target)
        answer, _ = start(served, request(outputs={"y": ("out", 8)}))
        gate.wait_until_entered()
        served.regions.unregister(SystemRegion, "out")
        register(served, "out", other)
        gate.opened.set()
        answer.wait()
        assert (target.open_descriptors(), other.open_descriptors()) == (0, 1)

        infer(served, request((1, 2), outputs={"y": ("out", 8, 16)}))
    assert target.content() == (rows(1) * 2).tobytes() + bytes(4088)
    assert other.content() == bytes(16) + (rows(1) * 2).tobytes() + bytes(4072)


def test_a_request_that_waits_keeps_its_regions(source, target):
    with Busy() as busy:
        register(busy.served, "in", source)
        register(busy.served, "out", target)
        answer, _ = start(busy.served, request(outputs={"y": ("out", 8)}))
        busy.served.regions.unregister(SystemRegion)
        busy.gate.opened.set()
        assert isinstance(answer.wait(), bytes)

        assert repr(busy.served.regions) == "Regions(registered=0, open=0, in_use=0)"
    assert target.content()[:8] == (rows(1) * 2).tobytes()


# Every end of a request. -----------------------------------------------------------------------------------------


def _fail(inputs):
    raise ValueError("the model fails")


@pytest.mark.parametrize(
    "sent",
    [
        request(outputs={"y": ("out", 8)}),
        request((1, 3), outputs={"y": ("out", 8)}),
        request(datatype="INT32", outputs={"y": ("out", 8)}),
        request(outputs={"y": ("out", 7)}),
        request(outputs={"y": ("out", 5000)}),
        request(outputs={"nope": ("out", 8)}),
        request(source=("in", 8, 4096), outputs={"y": ("out", 8)}),
        request(outputs={"y": ("out", 8)}, signature="nope"),
        request(outputs={"z": ("out", 12)}, signature="embed"),
        request(outputs={"y": ("out", 8)}, model="nope"),
    ],
    ids=[
        "answered", "refused shape", "refused datatype", "output too small", "window too large", "unknown output",
        "window outside", "unknown signature", "failed model", "unknown model",
    ],
)  # fmt: skip
def test_no_region_stays_in_use(source, target, sent):
    with serving(kit(embed=_fail)) as served:
        register(served, "in", source)
        register(served, "out", target)
        infer(served, sent)
        served.regions.unregister(SystemRegion)

        assert repr(served.regions) == "Regions(registered=0, open=0, in_use=0)"


def test_a_request_that_is_cancelled_while_it_waits_lets_its_regions_go_at_once(source, target):
    with Busy() as busy:
        register(busy.served, "in", source)
        register(busy.served, "out", target)
        answer, ticket = start(busy.served, request(outputs={"y": ("out", 8)}))
        assert not is_unused(busy.served)
        ticket.cancel()

        assert isinstance(answer.wait(), CancelledError)
        assert is_unused(busy.served)


def test_nothing_is_written_for_a_caller_that_left_while_the_model_ran(source, target):
    servable, gate = held()
    with serving(servable) as served:
        register(served, "in", source)
        register(served, "out", target)
        answer, ticket = start(served, request(outputs={"y": ("out", 8)}))
        gate.wait_until_entered()
        ticket.cancel()
        gate.opened.set()
        assert isinstance(answer.wait(), CancelledError)
        assert is_unused(served)

    assert target.content() == bytes(4096)
