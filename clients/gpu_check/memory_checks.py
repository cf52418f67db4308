"""Memory: one copy of the weights on each device, within the limit, given up and used again."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from tritonclient.utils import InferenceServerException

from clients.gpu_check.answer_checks import difference
from clients.gpu_check.finding import NO_GPU, Finding
from clients.gpu_check.plan import BLOCK_PARTS, BLOCK_VALUE
from clients.gpu_check.subject import Subject

_ROUNDS: Final = 3
_NO_METER: Final = Finding("not checked: nvidia-smi does not tell", None)
_SLACK: Final = 0.4
"""By how much of a copy main memory may grow more or less than by the copies."""
_OF_CUDA_MIB: Final = 2048
"""What the CUDA context and its libraries may take beside the limit."""


def there_is_one_copy(subject: Subject) -> Finding:
    """Load a model of several signatures and workers whose state takes more than half of the limit."""
    before = subject.memory_mib()
    subject.load("block")
    after = subject.memory_mib()
    answers = [_ask_block(subject, part) for part in range(BLOCK_PARTS)]
    block, devices = subject.sizes.block_mib, len(subject.device_runs("block"))
    seen = f"{BLOCK_PARTS} signatures answer; {devices} x {block} MiB; {_listed(before)} before, {_listed(after)} after"
    if not all(answers):
        return Finding(f"wrong answers: {answers}", ok=False)
    if subject.is_gpu:
        # TensorFlow takes memory in large pieces. What it holds shows that the state lies there; that it answers within
        # the limit shows that it lies there once.
        return Finding(seen, ok=all(held >= block for held in after.values())) if after else _NO_METER
    copies = (after["main memory"] - before["main memory"]) / block
    return Finding(seen, ok=abs(copies - devices) <= _SLACK)


def limit_holds(subject: Subject) -> Finding:
    """Look at what the driver counts, with a large model loaded."""
    if not subject.is_gpu:
        return NO_GPU
    held = subject.memory_mib()
    return (
        Finding(_listed(held), ok=max(held.values()) <= subject.sizes.limit_mib + _OF_CUDA_MIB) if held else _NO_METER
    )


def too_large_is_refused(subject: Subject) -> Finding:
    """Load what does not fit, then ask for what was loaded before."""
    try:
        subject.load("too_large")
    except InferenceServerException as error:
        refusal = str(error.message())
    else:
        return Finding("it was loaded", ok=False)
    scores = subject.infer("network", "scores", {"x": subject.answers["x"]})["y"]
    goes_on = difference(scores, subject.answers["scores.y"]) < 1
    seen = f"{refusal}\nthe next request was {'answered' if goes_on else 'answered wrongly'}"
    return Finding(seen, ok=goes_on and "does not fit into the memory" in refusal)


def memory_is_used_again(subject: Subject) -> Finding:
    """Unload and load a large model again and again, of which two do not fit."""
    before = subject.memory_mib()
    answers = []
    for _ in range(_ROUNDS):
        subject.unload("block")
        subject.load("block")
        answers.append(_ask_block(subject, 0))
    after = subject.memory_mib()
    subject.unload("block")
    grown = max((after[place] - before[place] for place in after), default=0.0)
    seen = f"{_ROUNDS} times; {_listed(before)} before, {_listed(after)} after"
    return Finding(seen, ok=all(answers) and grown <= _SLACK * subject.sizes.block_mib)


def main_memory_goes_back(subject: Subject) -> Finding:
    """Look at the memory of the process before a load, with the model, and after the unload."""
    if subject.is_gpu:
        return Finding("not checked: the model lies on the GPU", None)
    before = subject.memory_mib()
    subject.load("block")
    loaded = subject.memory_mib()
    subject.unload("block")
    after = subject.memory_mib()
    grown = after["main memory"] - before["main memory"]
    seen = f"{_listed(before)} before, {_listed(loaded)} with it, {_listed(after)} after"
    return Finding(seen, ok=grown <= _SLACK * subject.sizes.block_mib)


def _ask_block(subject: Subject, part: int) -> bool:
    answer = subject.infer("block", f"part_{part}", {"x": np.zeros(1, np.float32)})["y"]
    return bool(answer[0] == BLOCK_VALUE)


def _listed(held: Mapping[str, float]) -> str:
    return ", ".join(f"{place} {mib:.0f} MiB" for place, mib in held.items()) or "unknown"
