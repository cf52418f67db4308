"""A soak tells of everything that is not so, and of nothing else."""

from dataclasses import replace

import pytest

from tests.end_to_end.soak.verdicts import Sample, findings

EXPECTED = ("right", "cancelled")
GOOD = {"right": 990, "cancelled": 10}
MIB = 2**20


def steady():
    """A sample a second: 1,000 requests each, and a reload whose memory comes and goes once a minute."""
    return [
        Sample(
            at_s=float(second),
            requests=1000 * second,
            resident_bytes=600 * MIB + 300 * MIB * (second % 60 == 30),
            descriptors=30 + second % 3,
            threads=25,
            cpu_s=second / 2,
        )
        for second in range(601)
    ]


def changed(**changes):
    """Return samples of which some quantities are as a function of the second says."""
    return [
        replace(each, **{name: change(second) for name, change in changes.items()})
        for second, each in enumerate(steady())
    ]


def not_so(outcomes=GOOD, samples=()):
    return [each.what for each in findings(outcomes, EXPECTED, samples or steady()) if not each.holds]


def test_steady_server_has_no_fault():
    assert not_so() == []


@pytest.mark.parametrize(
    ("outcome", "what"),
    [
        ("wrong", "wrong rows"),
        ("lost", "lost requests"),
        ("StatusCode.UNAVAILABLE", "errors that nothing called for"),
    ],
)
def test_a_single_bad_outcome_is_told(outcome, what):
    assert not_so({**GOOD, outcome: 1}) == [what]


@pytest.mark.parametrize("slower", [0.9, 1.1])
def test_throughput_that_drifts_is_told(slower):
    samples = changed(requests=lambda second: 1000 * min(second, 540) + 1000 * slower * max(0, second - 540))

    assert not_so(samples=samples) == ["throughput of the last tenth beside the first"]


def test_leak_of_two_kilobytes_for_each_request_is_told():
    samples = changed(resident_bytes=lambda second: 600 * MIB + 2_000_000 * second)

    assert not_so(samples=samples) == [
        "resident memory, by request",
        "resident memory in the last three tenths",
    ]


def test_memory_that_begins_to_grow_in_the_end_is_told():
    samples = changed(resident_bytes=lambda second: 600 * MIB + 200_000 * max(0, second - 400))

    assert not_so(samples=samples) == ["resident memory in the last three tenths"]


def test_memory_that_the_first_requests_take_for_good_is_no_leak():
    assert not_so(samples=changed(resident_bytes=lambda second: 500 * MIB + MIB * min(second, 100))) == []


@pytest.mark.parametrize("name", ["descriptors", "threads"])
def test_one_that_stays_after_each_minute_is_told(name):
    assert not_so(samples=changed(**{name: lambda second: 30 + second // 60})) == [name]
