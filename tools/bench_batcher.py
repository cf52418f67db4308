"""Measure what the batcher itself costs per task: submit to done, with a run that does nothing.

    python tools/bench_batcher.py --tasks 400000 --submitters 16 --batch 64

Each submitter submits bursts of tasks and waits for each burst, so that batches are full. Printed are tasks per second
and the CPU time of the whole process per task, which contains making the task, merging and splitting its arrays, and
the submitters' own loop; ``--baseline`` prints the cost of that loop without a batcher.
"""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Hashable, Mapping

import numpy as np

from batching import BatchRecord, BatchScheduler, QueueOptions, Task, TaskResult

Arrays = Mapping[str, np.ndarray]


def run_nothing(_key: Hashable, inputs: Arrays, outputs: tuple[str, ...]) -> Arrays:
    """Answer with the input."""
    return dict.fromkeys(outputs, inputs["x"])


def submit_all(submit: Callable[[Task], None], options: QueueOptions, tasks: int, burst: int) -> None:
    """Submit tasks of one row each in bursts, and wait for each burst."""
    rows = {"x": np.zeros((1, 4), np.float32)}
    finished: list[TaskResult] = []
    burst_is_over = threading.Event()

    def done(_task: Task, result: TaskResult) -> None:
        finished.append(result)
        if len(finished) == burst:
            burst_is_over.set()

    for _ in range(tasks // burst):
        for _ in range(burst):
            submit(Task(("bench",), 1, rows, ("y",), options, done))
        burst_is_over.wait()
        burst_is_over.clear()
        finished.clear()


def answer_directly(task: Task) -> None:
    """Finish a task without any batcher."""
    task.finish(TaskResult(task.inputs))


def measure(submit: Callable[[Task], None], args: argparse.Namespace) -> tuple[float, float]:
    """Run the load; returns tasks per second and microseconds of CPU per task."""
    options = QueueOptions(max_batch_size=args.batch)
    each = args.tasks // args.submitters // args.burst * args.burst
    threads = [
        threading.Thread(target=submit_all, args=(submit, options, each, args.burst)) for _ in range(args.submitters)
    ]
    wall, cpu = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    done = each * args.submitters
    return done / wall, cpu / done * 1e6


def main() -> None:
    """Measure as the command line says and print one line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=400_000)
    parser.add_argument("--submitters", type=int, default=16)
    parser.add_argument("--burst", type=int, default=64, help="tasks that a submitter submits before it waits")
    parser.add_argument("--batch", type=int, default=64, help="max_batch_size")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--baseline", action="store_true", help="measure the load without a batcher")
    args = parser.parse_args()
    if args.baseline:
        per_second, cpu_us = measure(answer_directly, args)
        sys.stdout.write(f"without a batcher: {per_second:,.0f} tasks/s, {cpu_us:.2f} us of CPU per task\n")
        return
    records: list[BatchRecord] = []
    with BatchScheduler(run_nothing, workers=args.workers, observe=records.append) as scheduler:
        per_second, cpu_us = measure(scheduler.submit, args)
    mean = sum(record.size for record in records) / len(records)
    sys.stdout.write(f"{per_second:,.0f} tasks/s, {cpu_us:.2f} us of CPU per task, {mean:.1f} rows per batch\n")


if __name__ == "__main__":
    main()
