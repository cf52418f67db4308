"""The versions of one model: what requests find, what is shown of the others, and what a withdrawal leaves behind."""

from dataclasses import replace
from pathlib import Path

import pytest

from protos.model_config_pb2 import ModelConfig
from service.layouts import ModelSource
from service.load_plan import LoadPlan, VersionPlan
from service.model_entry import ModelEntry
from tests.service.serving import kit, model_version


def plan(*numbers):
    origins = {number: (frozenset(), frozenset(), b"") for number in numbers}
    return LoadPlan(ModelSource("clip"), ModelConfig(), None, origins, (frozenset(), {}))


def made_from(loaded):
    return VersionPlan(loaded.version, Path("clip"), ModelConfig(), plan(loaded.version).origins[loaded.version])


@pytest.fixture
def version():
    """Make versions that are closed when the test ends."""
    made = []

    def make(number):
        made.append(model_version(kit(), version=number))
        return made[-1]

    yield make
    for each in made:
        each.close(0)


@pytest.fixture
def entry():
    return ModelEntry("clip", is_required=False)


def serve(entry, *loaded):
    """Load versions as a repository does."""
    wish = plan(*(each.version for each in loaded))
    ticket = entry.begin_load(wish)
    entry.put_in_service({each: made_from(each) for each in loaded}, ticket)
    entry.finish_load(wish, ticket, succeeded=True)


def shown(entry):
    return [(number, str(each)) for number, each in entry.versions()]


def test_versions_are_found_in_order_of_number_whatever_the_order_of_loads(entry, version):
    first, second, third = version(1), version(2), version(3)
    serve(entry, third, first, second)

    assert entry.ready == (first, second, third)


def test_load_shows_only_what_does_not_serve_yet_as_loading(entry, version):
    serve(entry, version(1))
    entry.begin_load(plan(1, 2))

    assert shown(entry) == [(1, "READY"), (2, "LOADING")]


def test_version_takes_the_place_of_the_one_with_its_number_in_one_step(entry, version):
    old, new = version(1), version(1)
    serve(entry, old)
    ready = entry.ready
    ticket = entry.begin_load(plan(1))

    assert entry.put_in_service({new: made_from(new)}, ticket) == [old]
    assert entry.ready == (new,)
    assert ready == (old,), "who looked before goes on with what it saw"


def test_failure_is_shown_unless_an_earlier_copy_serves(entry, version):
    serve(entry, version(1))
    entry.begin_load(plan(1, 2))

    assert entry.fail(1, "it is broken")
    assert not entry.fail(2, "it is broken, too")
    assert shown(entry) == [(1, "READY"), (2, "UNAVAILABLE: it is broken, too")]


def test_reason_is_news_once_and_again_after_another(entry):
    told = [entry.is_news(number, reason) for number, reason in [(1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, "a")]]

    assert told == [True, False, True, True, True]


def test_reason_is_news_again_after_a_success_and_after_a_withdrawal(entry, version):
    entry.is_news(1, "it is broken")
    serve(entry, version(1))
    assert entry.is_news(1, "it is broken")
    entry.withdraw()
    assert entry.is_news(1, "it is broken")


def test_withdrawn_versions_are_handed_out_and_shown_until_they_are_closed(entry, version):
    first, second = version(1), version(2)
    serve(entry, first, second)

    assert entry.withdraw() == [first, second]
    assert entry.ready == ()
    assert shown(entry) == [(1, "UNLOADING"), (2, "UNLOADING")]
    entry.closed(first)
    assert shown(entry) == [(1, "UNAVAILABLE: unloaded"), (2, "UNLOADING")]


def test_close_of_an_old_copy_says_nothing_of_the_one_that_serves(entry, version):
    old = version(1)
    serve(entry, old)
    entry.withdraw()
    serve(entry, version(1))
    entry.closed(old)

    assert shown(entry) == [(1, "READY")]


def test_versions_come_and_go_in_one_step(entry, version):
    """A request sees either all that served before or all that serves afterwards."""
    old = [version(number) for number in (1, 2, 3)]
    new = [version(number) for number in (2, 4)]
    serve(entry, *old)
    seen = []

    class Watched(ModelEntry):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            if name == "ready":
                seen.append([each.version for each in value])

    entry.__class__ = Watched
    ticket = entry.begin_load(plan(2, 3, 4))
    retired = entry.put_in_service({each: made_from(each) for each in new}, ticket, kept=[2, 3, 4])

    assert retired == old[:2]
    assert entry.ready == (new[0], old[2], new[1])
    assert seen == [[2, 3, 4]]
    assert shown(entry) == [(1, "UNLOADING"), (2, "READY"), (3, "READY"), (4, "READY")]


def test_versions_that_a_load_replaces_or_leaves_out_make_room_for_it(entry, version):
    first, second, third = version(1), version(2), version(3)
    serve(entry, first, second, third)
    changed = replace(made_from(second), origin=(frozenset(), frozenset(), b"other"))
    wishes = [changed, made_from(third)]
    ticket = entry.begin_load(plan(2, 3))

    assert entry.make_room(wishes, ticket) == {first: made_from(first), second: made_from(second)}
    assert entry.ready == (third,)
    assert entry.is_replacing
    entry.finish_load(plan(2, 3), ticket, succeeded=False)
    assert not entry.is_replacing


def test_nothing_makes_room_for_a_load_that_was_overtaken(entry, version):
    ticket = entry.begin_load(plan(1))
    entry.withdraw()
    serve(entry, version(1))

    assert entry.make_room([], ticket) == {}
    assert len(entry.ready) == 1


def test_load_that_began_before_a_withdrawal_brings_nothing_back(entry, version):
    late = version(1)
    wish = plan(1)
    ticket = entry.begin_load(wish)
    entry.withdraw()

    assert entry.is_overtaken(ticket)
    assert entry.put_in_service({late: made_from(late)}, ticket) == [late], "it is to be closed"
    entry.finish_load(wish, ticket, succeeded=True)
    assert (entry.ready, entry.plan, entry.is_required) == ((), None, False)
    assert shown(entry) == [(1, "UNAVAILABLE: unloaded")]


def test_model_counts_for_readiness_from_the_end_of_a_load_to_a_withdrawal(entry):
    ticket = entry.begin_load(plan(1))
    assert not entry.is_required
    entry.finish_load(plan(1), ticket, succeeded=False)
    assert entry.is_required
    entry.withdraw()
    assert not entry.is_required


def test_plan_is_that_of_the_last_load_that_succeeded_as_a_whole(entry):
    first, second = plan(1), plan(2)
    entry.finish_load(first, entry.begin_load(first), succeeded=True)
    entry.finish_load(second, entry.begin_load(second), succeeded=False)

    assert entry.plan is first
