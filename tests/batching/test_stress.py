import sys

import pytest

from tools.stress_batcher import stress


@pytest.fixture
def tiny_switch_interval():
    """Let threads interrupt each other almost anywhere."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("workers", [1, 4])
def test_every_answer_is_right_under_faults(workers):
    outcomes, wrong = stress(tasks=16_000, threads=16, workers=workers)

    assert wrong == []
    assert min(outcomes[name] for name in ("answered", "FaultError", "TaskCancelledError", "DeadlineError")) > 0


def test_every_answer_is_right_where_all_runs_count_as_quick(monkeypatch):
    monkeypatch.setattr("batching.lane._QUICK_S", 60.0)

    _, wrong = stress(tasks=16_000, threads=16, workers=4)

    assert wrong == []


@pytest.mark.usefixtures("tiny_switch_interval")
def test_every_answer_is_right_when_threads_interrupt_each_other_anywhere():
    _, wrong = stress(tasks=16_000, threads=16, workers=4)

    assert wrong == []


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_every_one_of_a_million_answers_is_right():
    outcomes, wrong = stress(tasks=1_000_000, threads=16, workers=4)

    assert wrong == []
    assert outcomes.total() == 1_000_000
