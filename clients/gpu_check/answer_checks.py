"""Where a model runs, and whether what it answers is right: plain, compiled and with mixed precision."""

import re
from collections.abc import Mapping
from typing import Final

import numpy as np

from clients.gpu_check.finding import NO_GPU, Finding
from clients.gpu_check.plan import ROWS, XLA_SIZES
from clients.gpu_check.subject import Subject

_REQUESTS: Final = 40
TOLERANCE: Final = 5e-3
"""Of the largest value. GPUs multiply with 10 bits of mantissa (TF32) unless told otherwise."""
_MIXED_TOLERANCE: Final = 5e-2
_DIFFERENCE: Final = re.compile(r"signature '(\w+)' differs by up to (\S+) of its largest value")


def device_is_logged(subject: Subject) -> Finding:
    """Look for each device in the log."""
    devices = subject.device_runs("network")
    if not subject.is_gpu:
        return NO_GPU
    lines = subject.log_lines("TensorFlow may take up to")
    limit = f"up to {subject.sizes.limit_mib} MiB"
    named = [any(f"{device}: " in line and limit in line for line in lines) for device in devices]
    return Finding("\n".join(lines) or "no such line", ok=bool(named) and all(named))


def runs_are_placed(subject: Subject) -> Finding:
    """Count runs by device."""
    before = subject.device_runs("network")
    for _ in range(_REQUESTS):
        subject.infer("network", "scores", {"x": subject.answers["x"]})
    after = subject.device_runs("network")
    counts = {device: runs - before[device] for device, runs in after.items()}
    kind = "GPU:" if subject.is_gpu else "CPU:"
    right = all(device.startswith(kind) and count > 0 for device, count in counts.items())
    return Finding(_listed(counts), ok=right and sum(counts.values()) == _REQUESTS)


def answers_are_right(subject: Subject) -> Finding:
    """Compare every signature that writes nothing, in several sizes."""
    worst: dict[str, float] = {}
    for signature in ("scores", "embedding", "class", "word"):
        name = "word" if signature == "word" else "x"
        for rows in (1, 3, ROWS):
            outputs = subject.infer("network", signature, {name: subject.answers[name][:rows]})
            for output, array in outputs.items():
                key = f"{signature}.{output}"
                worst[key] = max(worst.get(key, 0.0), difference(array, subject.answers[key][:rows]))
    return Finding(_listed({key: f"{each:.1e}" for key, each in worst.items()}), ok=max(worst.values()) <= TOLERANCE)


def bits_are_the_same(subject: Subject) -> Finding:
    """Ask the same again and again, so that every device answers."""
    devices = subject.device_runs("network")
    if subject.is_gpu or len(devices) < 2:
        return Finding("not checked: it is promised for logical devices, of which there are not two", None)
    x = {"x": subject.answers["x"]}
    answers = {subject.infer("network", "scores", x)["y"].tobytes() for _ in range(4 * len(devices))}
    return Finding(f"{len(answers)} answers from {len(devices)} devices", ok=len(answers) == 1)


def state_is_one(subject: Subject) -> Finding:
    """Count up by requests one after the other."""
    counts = [int(subject.infer("network", "count", {})["count"]) for _ in range(4)]
    return Finding(str(counts), ok=counts == [1, 2, 3, 4])


def each_size_is_compiled_once(subject: Subject) -> Finding:
    """Compile a signature as a whole, and count before and after requests of random sizes."""
    return _compiled(subject, "xla", exactly=True)


def parts_are_compiled_before_ready(subject: Subject) -> Finding:
    """The same with the parts that TensorFlow chooses, which the look at a model's rows compiles for its sizes, too."""
    return _compiled(subject, "xla_auto", exactly=False)


def _compiled(subject: Subject, model: str, *, exactly: bool) -> Finding:
    subject.load(model)
    allowed = len(XLA_SIZES) * len(subject.device_runs(model))
    ready = subject.compilations(model).get("scores", 0)
    answers = subject.infer_sizes(model, 4 * _REQUESTS)
    after = subject.compilations(model).get("scores", 0)
    worst = max(difference(scores, subject.answers["scores.y"][:rows]) for rows, scores in answers)
    seen = f"{ready} when ready, {after} after {len(answers)} requests; answers differ by up to {worst:.1e}"
    enough = ready == allowed if exactly else ready >= allowed
    return Finding(seen, ok=enough and ready == after and worst <= TOLERANCE)


def precision_is_told(subject: Subject) -> Finding:
    """Load with mixed precision; on a GPU the difference shows that it is in force."""
    subject.load("mixed")
    lines = subject.log_lines("model 'mixed': with mixed precision signature")
    told = {found[1]: float(found[2]) for line in lines if (found := _DIFFERENCE.search(line))}
    scores = subject.infer("mixed", "scores", {"x": subject.answers["x"]})["y"]
    off = difference(scores, subject.answers["scores.y"])
    in_force = all(told.get(name, 0) > 0 for name in ("scores", "embedding")) or not subject.is_gpu
    right = {"scores", "embedding"} <= told.keys() and in_force and off <= _MIXED_TOLERANCE
    return Finding(f"told: {_listed(told)}; scores differ by {off:.1e} from full precision", ok=right)


def difference(got: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest difference as a part of the largest value; infinite for other shapes or other text."""
    if got.shape != expected.shape:
        return float("inf")
    if got.dtype.kind != "f":
        return 0.0 if got.tolist() == expected.tolist() else float("inf")
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def _listed(values: Mapping[str, object]) -> str:
    return ", ".join(f"{key}: {value}" for key, value in values.items()) or "nothing"
