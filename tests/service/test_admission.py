"""What is held at a time is counted exactly and bounded, whatever becomes of it."""

import random
import threading

import pytest

from service.admission import Admission, Limit, admission_from
from service.errors import UnavailableError
from service.memory_limit import memory
from service.settings import Settings


def held(admission):
    return {limit.name: count for limit, count in admission.counts().held.items()}


def refused(admission):
    return {limit.name: count for limit, count in admission.counts().refused.items() if count}


def test_as_many_requests_as_the_limit_are_taken_and_one_more_is_refused():
    admission = Admission({Limit.REQUESTS: 2})
    admission.enter(1)
    admission.enter(1)
    with pytest.raises(UnavailableError, match=r"its limit is 2 requests in flight \(max_requests_in_flight\)"):
        admission.enter(1)
    admission.leave(1)
    admission.enter(1)

    assert held(admission) == {"REQUESTS": 2, "BYTES": 2, "STREAMS": 0}
    assert refused(admission) == {"REQUESTS": 1}


def test_bytes_are_limited_over_all_requests_but_never_for_one_alone():
    admission = Admission({Limit.BYTES: 100})
    admission.enter(1000)
    with pytest.raises(UnavailableError, match=r"its limit is 100 bytes of requests in flight"):
        admission.enter(1)
    admission.leave(1000)
    admission.enter(60)
    admission.enter(40)
    with pytest.raises(UnavailableError):
        admission.enter(1)

    assert held(admission)["BYTES"] == 100
    assert refused(admission) == {"BYTES": 2}


def test_streams_are_limited_while_they_are_open():
    admission = Admission({Limit.STREAMS: 1})
    with admission.stream():
        with pytest.raises(UnavailableError, match="its limit is 1 open streams"), admission.stream():
            pass
        assert held(admission)["STREAMS"] == 1
    with admission.stream():
        pass

    assert held(admission)["STREAMS"] == 0
    assert refused(admission) == {"STREAMS": 1}


def test_zero_is_no_limit():
    admission = Admission(dict.fromkeys(Limit, 0))
    for _ in range(1000):
        admission.enter(2**40)

    assert refused(admission) == {}


def test_options_are_the_limits():
    admission = admission_from(Settings(max_requests_in_flight=1, max_bytes_in_flight=0, max_streams=0))
    admission.enter(2**60)
    with pytest.raises(UnavailableError, match="its limit is 1 requests"):
        admission.enter(0)


def test_without_an_option_a_quarter_of_the_memory_is_for_inputs():
    admission = admission_from(Settings())
    quarter = memory().limit // 4
    admission.enter(quarter)
    with pytest.raises(UnavailableError, match=f"its limit is {quarter} bytes"):
        admission.enter(1)


def test_threads_lose_no_count():
    admission = Admission({Limit.REQUESTS: 5, Limit.BYTES: 1000})
    failures = []

    def work(seed):
        chance = random.Random(seed)
        for _ in range(3000):
            nbytes = chance.randrange(400)
            try:
                admission.enter(nbytes)
            except UnavailableError:
                continue
            counts = held(admission)
            if not (1 <= counts["REQUESTS"] <= 5 and counts["BYTES"] <= 1000):
                failures.append(counts)
            admission.leave(nbytes)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert held(admission) == {"REQUESTS": 0, "BYTES": 0, "STREAMS": 0}
