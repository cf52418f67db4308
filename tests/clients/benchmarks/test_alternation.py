from clients.benchmarks.alternation import alternate
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


def test_contenders_take_turns_and_every_other_round_goes_backwards_after_one_that_does_not_count():
    turns = []
    series = alternate(
        [Recorder("A", turns), Recorder("B", turns)], [Load("", ("s",))], concurrency=4, rounds=3, seconds=1
    )

    assert "".join(turns) == "AB" + "AB" + "BA" + "AB"
    rates = {one.contender: [measured.requests_per_s for measured in one.measurements] for one in series}
    assert rates == {"A": [3, 6, 7], "B": [4, 5, 8]}
    assert {one.concurrency for one in series} == {4}
    assert [one.computing.device for one in series] == ["GPU:A", "GPU:B"]


def test_every_load_meets_every_contender():
    turns = []
    loads = [Load("1", ("s",)), Load("2", ("s",))]
    series = alternate([Recorder("A", turns), Recorder("B", turns)], loads, concurrency=1, rounds=1, seconds=1)

    assert [(one.contender, one.load) for one in series] == [("A", "1"), ("B", "1"), ("A", "2"), ("B", "2")]
    assert turns == ["A1", "B1", "A2", "B2"] * 2
