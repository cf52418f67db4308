"""Small tasks, run functions and collectors that the tests of the batcher share."""

import threading

import numpy as np

from batching import QueueOptions, Task, TaskResult

OPTIONS = QueueOptions(max_batch_size=8)


class Answers:
    """Collects results; ``wait`` gives them in the order of the tasks."""

    def __init__(self):
        self.results: dict[Task, list[TaskResult]] = {}
        self._changed = threading.Condition()

    def __call__(self, task, result):
        with self._changed:
            self.results.setdefault(task, []).append(result)
            self._changed.notify_all()

    def wait(self, *tasks, timeout_s=30):
        with self._changed:
            assert self._changed.wait_for(lambda: all(task in self.results for task in tasks), timeout_s)
            return [self.results[task][0] for task in tasks]


def task(first_row=0, size=1, options=OPTIONS, key=("double",), done=None, deadline=None, **more):
    """A task whose rows hold the numbers from ``first_row`` on, so that each row tells where it came from."""
    rows = np.arange(first_row, first_row + size, dtype=np.float64).reshape(size, 1)
    return Task(key, size, {"x": rows}, ("y",), options, done or (lambda task, result: None), deadline, **more)


def double(key, inputs, outputs):
    """A run function: every wanted output is twice the input ``x``; a negative number is an error."""
    if (inputs["x"] < 0).any():
        raise ValueError("negative")
    return dict.fromkeys(outputs, inputs["x"] * 2)


class Gate:
    """A run function that waits inside until it is opened, and tells how many runs were begun."""

    def __init__(self, run=double):
        self.opened = threading.Event()
        self.entered = threading.Semaphore(0)
        self.calls = []
        self._run = run

    def __call__(self, key, inputs, outputs):
        self.calls.append((key, len(inputs["x"]) if "x" in inputs else 0))
        self.entered.release()
        assert self.opened.wait(30)
        return self._run(key, inputs, outputs)
