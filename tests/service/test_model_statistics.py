import sys
import threading
import time

import pytest

from service.model_statistics import (
    MOST_SIZES,
    Compute,
    Duration,
    FailureReason,
    RunDurations,
    SignatureStatistics,
    Statistics,
    total,
)

RUN = RunDurations(input_ns=1, infer_ns=10, output_ns=2)


def counts(compute):
    return [(part.count, part.ns) for part in (compute.input, compute.infer, compute.output)]


def test_requests_that_ran_alone_are_counted_as_triton_counts_them():
    """3 requests of 1 row and 1 of 4 rows: 7 rows, 4 runs."""
    statistics = SignatureStatistics()
    for rows in (1, 1, 1, 4):
        statistics.record_run(rows, RUN)
        statistics.record_successes(rows, totals_ns=[100], queue_ns=5, durations=RUN)

    snapshot = statistics.snapshot()

    assert (snapshot.inference_count, snapshot.execution_count) == (7, 4)
    assert (snapshot.success, snapshot.queue, snapshot.fail) == (Duration(4, 400), Duration(4, 20), Duration(0, 0))
    assert counts(snapshot.compute) == [(4, 4), (4, 40), (4, 8)]
    assert {size: counts(batch) for size, batch in snapshot.batches.items()} == {
        1: [(3, 3), (3, 30), (3, 6)],
        4: [(1, 1), (1, 10), (1, 2)],
    }


def test_requests_that_ran_together_each_add_the_whole_runs_time():
    """Requests of 1, 1, 2 and 4 rows in one run: 8 rows, 1 run."""
    statistics = SignatureStatistics()
    statistics.record_run(8, RUN)
    for rows in (1, 1, 2, 4):
        statistics.record_successes(rows, totals_ns=[100], queue_ns=5, durations=RUN)

    snapshot = statistics.snapshot()

    assert (snapshot.inference_count, snapshot.execution_count, snapshot.success.count) == (8, 1, 4)
    assert counts(snapshot.compute) == [(4, 4), (4, 40), (4, 8)]
    assert {size: counts(batch) for size, batch in snapshot.batches.items()} == {8: [(1, 1), (1, 10), (1, 2)]}


def test_callers_who_send_every_size_do_not_fill_the_memory():
    statistics = SignatureStatistics()
    sizes = range(1, MOST_SIZES + 10)
    for rows in (*sizes, *sizes):
        statistics.record_run(rows, RUN)

    snapshot = statistics.snapshot()

    assert snapshot.execution_count == 2 * len(sizes)
    assert {size: batch.infer.count for size, batch in snapshot.batches.items()} == dict.fromkeys(sizes[:-9], 2)


def test_a_failed_run_counts_as_a_run_and_adds_no_rows():
    statistics = SignatureStatistics()
    statistics.record_run(2, RUN)
    for _ in range(2):
        statistics.record_failure(50, FailureReason.BACKEND)

    snapshot = statistics.snapshot()

    assert (snapshot.inference_count, snapshot.execution_count, snapshot.fail) == (0, 1, Duration(2, 100))
    assert (snapshot.success, snapshot.queue) == (Duration(), Duration())
    assert counts(snapshot.compute) == [(0, 0)] * 3
    assert list(snapshot.batches) == [2]


def test_the_last_inference_is_the_time_of_the_last_run_in_milliseconds():
    statistics = SignatureStatistics()
    assert statistics.snapshot().last_inference_ms == 0

    before = time.time_ns() // 1_000_000
    statistics.record_run(1, RUN)

    assert before <= statistics.snapshot().last_inference_ms <= time.time_ns() // 1_000_000


def test_a_snapshot_stays_as_it_was():
    statistics = SignatureStatistics()
    statistics.record_run(1, RUN)
    snapshot = statistics.snapshot()

    statistics.record_run(1, RUN)
    statistics.record_successes(1, [100], 5, RUN)

    assert snapshot.execution_count == 1
    assert snapshot.success == Duration()
    assert counts(snapshot.batches[1]) == [(1, 1), (1, 10), (1, 2)]


def test_a_total_adds_up_every_counter_and_leaves_the_parts_alone():
    parts = [SignatureStatistics(), SignatureStatistics()]
    for part, rows in zip(parts, (1, 3), strict=True):
        part.record_run(rows, RUN)
        part.record_run(2, RUN)
        part.record_successes(rows, [100], 5, RUN)
        part.record_failure(50, FailureReason.BACKEND)
    before = [part.snapshot() for part in parts]

    summed = total(parts)

    assert (summed.inference_count, summed.execution_count) == (4, 4)
    assert (summed.success, summed.queue, summed.fail) == (Duration(2, 200), Duration(2, 10), Duration(2, 100))
    assert counts(summed.compute) == [(2, 2), (2, 20), (2, 4)]
    assert {size: batch.infer.count for size, batch in summed.batches.items()} == {1: 1, 2: 2, 3: 1}
    assert summed.last_inference_ms == max(part.last_inference_ms for part in before)
    assert [part.snapshot() for part in parts] == before


def test_the_total_of_nothing_is_zero():
    assert total([]) == Statistics(batches={})


def test_durations_add_up():
    compute = Compute()
    compute.add_run(RUN)
    compute.add(compute)

    assert counts(compute) == [(2, 2), (2, 20), (2, 4)]


@pytest.fixture
def eager_switching():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def test_no_event_is_lost_between_threads_and_every_snapshot_adds_up(eager_switching):
    statistics, rounds, threads = SignatureStatistics(), 500, 4

    def record():
        for _ in range(rounds):
            statistics.record_run(3, RUN)
            statistics.record_successes(3, [100], 5, RUN)
            statistics.record_failure(7, FailureReason.OTHER)

    workers = [threading.Thread(target=record) for _ in range(threads)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        seen = statistics.snapshot()
        assert seen.inference_count == 3 * seen.success.count == 3 * seen.queue.count == 3 * seen.compute.infer.count
        assert seen.execution_count == seen.batches[3].infer.count
    for worker in workers:
        worker.join()

    snapshot = statistics.snapshot()
    events = rounds * threads
    assert (snapshot.inference_count, snapshot.execution_count) == (3 * events, events)
    assert (snapshot.success, snapshot.fail) == (Duration(events, 100 * events), Duration(events, 7 * events))
