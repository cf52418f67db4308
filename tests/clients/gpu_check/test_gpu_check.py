"""What the checks make of what they see; most of it only a GPU shows, so a made-up one stands here."""

import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from tritonclient.utils import InferenceServerException

from clients.gpu_check import __main__ as gpu_check
from clients.gpu_check import answer_checks, gpus, memory_checks, subject
from clients.gpu_check.finding import NO_GPU, Check, Finding, Row, carry_out, to_table
from clients.gpu_check.plan import BLOCK_VALUE, GPU_SIZES
from clients.gpu_check.subject import Subject

LIMIT = GPU_SIZES.limit_mib
FOUND = "GPU:0: NVIDIA H100, compute capability 9.0; TensorFlow may take up to 4096 MiB, and takes them as needed"


class OnGpu(Subject):
    """A subject that says what it is told to."""

    def __init__(self, *, lines=(), held=(), answer=None, is_gpu=True):
        super().__init__(None, None, is_gpu, GPU_SIZES, {"x": np.ones((8, 4)), "scores.y": np.ones((8, 2))}, {})
        object.__setattr__(self, "_told", SimpleNamespace(lines=lines, held=iter(held), answer=answer))

    def device_runs(self, model):
        return {"GPU:0": 0}

    def log_lines(self, *parts):
        return [line for line in self._told.lines if all(part in line for part in parts)]

    def memory_mib(self):
        return next(self._told.held)

    def load(self, model):
        pass

    def infer(self, model, signature, inputs):
        return {"y": self._told.answer}


def test_devices_are_found_where_the_log_names_each_with_the_limit():
    assert answer_checks.device_is_logged(OnGpu(lines=[FOUND])).ok
    assert not answer_checks.device_is_logged(OnGpu(lines=[FOUND.replace("4096", "8000")])).ok
    assert not answer_checks.device_is_logged(OnGpu()).ok
    assert answer_checks.device_is_logged(OnGpu(is_gpu=False)) == NO_GPU


@pytest.mark.parametrize(("held", "ok"), [(0, False), (2300, False), (2400, True), (4000, True)])
def test_weights_lie_on_the_gpu_where_it_holds_at_least_so_much(held, ok):
    block = np.array([BLOCK_VALUE], np.float32)

    assert memory_checks.there_is_one_copy(OnGpu(held=[{"GPU:0": 0.0}, {"GPU:0": held}], answer=block)).ok is ok


def test_wrong_answers_of_the_block_are_no_copy_of_it():
    wrong = np.array([BLOCK_VALUE + 1], np.float32)

    assert memory_checks.there_is_one_copy(OnGpu(held=[{}, {"GPU:0": 4000.0}], answer=wrong)).ok is False


@pytest.mark.parametrize(("held", "ok"), [({"GPU:0": LIMIT + 900.0}, True), ({"GPU:0": 9000.0}, False), ({}, None)])
def test_limit_allows_for_what_cuda_takes_itself(held, ok):
    assert memory_checks.limit_holds(OnGpu(held=[held])).ok is ok


def test_memory_is_that_of_the_chosen_gpus_since_the_start(monkeypatch):
    monkeypatch.setattr(Subject, "device_runs", lambda self, model: {"GPU:1": 0, "GPU:2": 0})
    monkeypatch.setattr(subject, "used_mib", lambda: {0: 50.0, 1: 30.0})

    idle = {0: 5.0, 1: 10.0, 2: 0.0}
    held = Subject(None, None, is_gpu=True, sizes=GPU_SIZES, answers={}, idle_mib=idle).memory_mib()

    assert held == {"GPU:1": 20.0}


@pytest.mark.parametrize(("told", "ok"), [("0.002", True), ("0", False)])
def test_mixed_precision_on_a_gpu_must_show(told, ok):
    line = "model 'mixed': with mixed precision signature '%s' differs by up to %s of its largest value (output 'y')"
    lines = [line % (signature, told) for signature in ("scores", "embedding")]

    assert answer_checks.precision_is_told(OnGpu(lines=lines, answer=np.ones((8, 2)))).ok is ok
    assert not answer_checks.precision_is_told(OnGpu(lines=lines[:1], answer=np.ones((8, 2)))).ok


def test_difference_is_a_part_of_the_largest_value_and_text_must_be_equal():
    one, other = np.array([1.0, -4.0]), np.array([1.5, -4.0])

    assert answer_checks.difference(other, one) == 0.125
    assert answer_checks.difference(one[:1], one) == np.inf
    assert answer_checks.difference(np.array([b"a"], object), np.array([b"a"])) == 0
    assert answer_checks.difference(np.array([b"b"], object), np.array([b"a"])) == np.inf


def test_driver_is_read_by_number_and_what_it_does_not_tell_is_left_out():
    assert gpus.parse("0, 431\n1, [N/A]\n 2 , 0\n\n") == {0: 431.0, 2: 0.0}


def test_a_machine_without_the_drivers_program_tells_nothing(monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")

    assert gpus.used_mib() == {}


def test_what_a_check_raises_is_a_promise_that_is_not_kept():
    def refuse(subject):
        raise InferenceServerException("no such model")

    row = carry_out(Check("a", "b", refuse), OnGpu())

    assert row.finding.ok is False
    assert "no such model" in row.finding.seen


@pytest.mark.parametrize(("verdicts", "code"), [((True, None), 0), ((True, False, None), 1)])
def test_only_broken_promises_fail(verdicts, code, capsys):
    rows = [Row(Check(f"check {ok}", "p", None), Finding("s", ok)) for ok in verdicts]

    assert gpu_check.conclude(rows) == code
    assert ("Not as promised: check False." in capsys.readouterr().out) is bool(code)


def test_table_tells_what_was_promised_and_seen():
    file = io.StringIO()

    Console(file=file, width=100).print(to_table("t", [Row(Check("limit", "it holds", None), NO_GPU)]))

    (line,) = (line for line in file.getvalue().splitlines() if "limit" in line)
    assert [cell.strip() for cell in line.strip("│").split("│")] == ["limit", "it holds", "not checked: no GPU", "-"]
