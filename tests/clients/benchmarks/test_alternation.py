from clients.benchmarks.alternation import alternate, lines
from clients.benchmarks.figures import Measurement
from clients.benchmarks.scenarios import Load
from clients.benchmarks.variants import Computing


class Recorder:
    """A contender that only notes its turn; the number of the turn is its throughput."""

    def __init__(self, label, turns):
        self.label = label
        self.computing = Computing(f"GPU:{label}")
        self._turns = turns

    def measure(self, load, concurrency, seconds):
        self._turns.append(self.label + load.label)
        return Measurement(len(self._turns), 1.0, 1.0, 1.0, 1.0)


def alternated(turns, loads, concurrencies, rounds):
    contenders = [Recorder("A", turns), Recorder("B", turns)]
    return alternate(contenders, loads, concurrencies, rounds, seconds=1, tell=lambda _: None)


def test_contenders_take_turns_and_every_other_round_goes_backwards_after_one_that_does_not_count():
    turns = []
    series = alternated(turns, [Load("", ("s",))], [4], rounds=3)

    assert "".join(turns) == "BA" + "AB" + "BA" + "AB"
    rates = {one.contender: [measured.requests_per_s for measured in one.measurements] for one in series}
    assert rates == {"A": [3, 6, 7], "B": [4, 5, 8]}
    assert {one.concurrency for one in series} == {4}
    assert [one.computing.device for one in series] == ["GPU:A", "GPU:B"]


def test_every_load_meets_every_contender():
    turns = []
    series = alternated(turns, [Load("1", ("s",)), Load("2", ("s",))], [1], rounds=1)

    assert [(one.contender, one.load) for one in series] == [("A", "1"), ("B", "1"), ("A", "2"), ("B", "2")]
    assert turns[4:] == ["A1", "B1", "A2", "B2"]


def test_numbers_of_callers_take_turns_too_so_that_they_can_be_compared():
    turns = []
    series = alternated(turns, [Load("", ("s",))], [1, 16], rounds=1)

    assert [(one.concurrency, one.contender) for one in series] == [(1, "A"), (1, "B"), (16, "A"), (16, "B")]
    assert "".join(turns) == "BABA" + "ABAB"
    assert [[one.concurrency for one in line] for line in lines(series)] == [[1, 16], [1, 16]]
