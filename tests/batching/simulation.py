"""A server in numbers: one worker, run times by formula, callers that wait or do not, and no clock but the events'."""

import heapq
import itertools
import random

import numpy as np

from batching import BatchRecord, QueueOptions, Task
from batching.backlog import Backlog


class Simulation:
    """Runs the backlog of one signature against a model whose run on b rows takes ``base_s + b * row_s``."""

    def __init__(self, options: QueueOptions, base_s: float, row_s: float):
        self.options = options
        self.base_s, self.row_s = base_s, row_s
        self.latencies, self.batches = [], []
        self._backlog = Backlog()
        self._events = []  # (time, number, kind, what)
        self._numbers = itertools.count()
        self._is_busy = False
        self._thinks_s = None

    def open_loop(self, per_second: float, tasks: int, seed: int = 0):
        """Tasks arrive at random times, whatever becomes of them."""
        rng, now = random.Random(seed), 0.0
        for _ in range(tasks):
            now += rng.expovariate(per_second)
            self._at(now, "arrive", None)
        return self._run(tasks)

    def closed_loop(self, callers: int, tasks: int):
        """Each caller sends a task, waits for the answer, and sends the next."""
        self._thinks_s = 0.0001
        for caller in range(callers):
            self._at(caller * 0.00001, "arrive", None)
        return self._run(tasks)

    def _run(self, tasks):
        while self._events and len(self.latencies) < tasks:
            self.now, _, kind, what = heapq.heappop(self._events)
            if kind == "arrive":
                self._backlog.add(self._task(), self.now)
            elif kind == "finish":
                self._finish(what)
            self._start()
        return self

    def _task(self):
        return Task("k", 1, {"x": np.zeros(1)}, ("y",), self.options, lambda *_: None)

    def _start(self):
        if self._is_busy:
            return
        batch = self._backlog.take(self.now)
        if batch is not None:
            self._is_busy = True
            self._at(self.now + self._run_s(batch), "finish", batch)
        elif self.now < (ready_at := self._backlog.next_ready_at()) < float("inf"):
            self._at(ready_at, "look", None)

    def _finish(self, batch):
        self._is_busy = False
        self.batches.append(batch.size)
        self.latencies += [self.now - task.queued_at for task in batch.tasks]
        record = BatchRecord("k", self.options, batch.size, batch.size, len(batch.tasks), is_retry=False)
        record.compute_infer_ns = int(self._run_s(batch) * 1e9)
        self._backlog.lane(self.options).ran(batch, record, self.now)
        if self._thinks_s is not None:
            for _ in batch.tasks:
                self._at(self.now + self._thinks_s, "arrive", None)

    def _run_s(self, batch):
        return self.base_s + batch.size * self.row_s

    def _at(self, time, kind, what):
        heapq.heappush(self._events, (time, next(self._numbers), kind, what))

    @property
    def p99(self):
        """Of the second half, when the batcher has settled."""
        settled = sorted(self.latencies[len(self.latencies) // 2 :])
        return settled[int(0.99 * len(settled))]

    @property
    def mean_batch(self):
        settled = self.batches[len(self.batches) // 2 :]
        return sum(settled) / len(settled)

    @property
    def throughput(self):
        return len(self.latencies) / self.now
