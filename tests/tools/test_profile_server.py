"""How samples and CPU times become a table; py-spy itself is no dependency, so its text stands here."""

import os
import threading
from pathlib import Path

import pytest

from tools.profile_server import STAGES, Thread, samples, share_out, stage_of, threads_of

FOLDED = """\
thread (12): front-127.0.0.1:1;Thread.run (threading.py:9);Relay._work (service/transports/relay.py:60) 3
thread (12): front-127.0.0.1:1;Relay._work (relay.py:60);Front._take (native_front.py:230);cut_request (wire.py:40) 1
thread (13): toy-1-0;_split (batching/processor.py:60);a.<locals>.b (c.py:1) 5
"""


def test_the_innermost_frame_that_is_known_tells_the_stage():
    found = samples(FOLDED)

    assert found[12] == {"receive calls": 3, "read the message": 1}
    assert found[13] == {"divide": 5}


def test_a_stack_without_a_known_frame_is_told_as_other():
    assert stage_of(["main (server.py:1)", "<module> (x.py:2)"]) == "other Python"


def test_the_time_of_a_thread_is_shared_out_over_its_stages():
    threads = {12: Thread("python3", 4.0), 13: Thread("python3", 1.0), 14: Thread("tokio-rt-7", 2.0)}

    seconds = share_out(threads, samples(FOLDED))

    assert seconds == pytest.approx(
        {"receive calls": 3.0, "read the message": 1.0, "divide": 1.0, "threads tokio-rt": 2.0}
    )


def test_the_threads_of_a_process_are_told_with_their_cpu_time():
    threads = threads_of(os.getpid())

    assert threads[threading.get_native_id()].cpu_s > 0


def test_every_place_of_a_stage_exists():
    root = Path(__file__).parents[2]
    texts = {path.name: path.read_text() for name in ("service", "batching") for path in (root / name).rglob("*.py")}

    for place in (place for places in STAGES.values() for place in places):
        file, _, function = place.partition(" ")
        assert function == "*" or f"def {function.rstrip('*')}" in texts[file], place
