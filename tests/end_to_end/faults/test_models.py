"""Models that fail, hang or answer with what is no number: who shares a run with them is not harmed."""

import threading
import time

import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.end_to_end.calls import call, on_each_transport, rows
from tests.end_to_end.readings import WAIT_S, fetch, readings, wait_until

pytestmark = pytest.mark.end_to_end

ROUNDS = 10
CALLERS = 8


def together(server, calls):
    """Make calls at the same moment, each over a connection of its own; return each one's outputs or error."""
    barrier = threading.Barrier(len(calls))
    outcomes = [None] * len(calls)

    def work(number, inputs, signature):
        with triton.InferenceServerClient(server.address) as client:
            assert client.is_server_live()
            barrier.wait(WAIT_S)
            try:
                outcomes[number] = call(client, "faults", inputs, signature)
            except InferenceServerException as error:
                outcomes[number] = error

    threads = [threading.Thread(target=work, args=(number, *each)) for number, each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


@on_each_transport
def test_id_that_a_table_does_not_have_fails_alone(server, note):
    bad = {3: 10, 5: -1}
    for _ in range(ROUNDS):
        ids = [np.array([bad.get(number, number)], np.int64) for number in range(CALLERS)]
        outcomes = together(server, [({"ids": each}, "lookup") for each in ids])
        for number, outcome in enumerate(outcomes):
            if number in bad:
                assert outcome.status() == "StatusCode.INTERNAL"
                assert "'faults' version 1 signature 'lookup'" in outcome.message()
                assert f"{bad[number]} is not in [0, 10)" in outcome.message()
            else:
                np.testing.assert_array_equal(outcome["row"], [np.arange(4.0) + 4 * number])
    note(
        "ids that a table does not have, beside good ones",
        "INTERNAL that names model, signature and id, for the guilty alone",
        f"{ROUNDS * len(bad)} errors, {ROUNDS * (CALLERS - len(bad))} right rows",
    )


@on_each_transport
def test_what_is_no_number_is_an_answer_and_stays_in_its_row(server, note):
    for _ in range(ROUNDS):
        xs = [np.full((1, 4), number - 1.0, np.float32) for number in range(CALLERS)]
        outcomes = together(server, [({"x": x}, "logarithm") for x in xs])
        with np.errstate(all="ignore"):
            for x, outcome in zip(xs, outcomes, strict=True):
                np.testing.assert_allclose(outcome["y"], np.log(x), rtol=1e-6)
    note("a model that returns NaN and infinity", "they are answers; other rows are right", f"{ROUNDS * CALLERS} right")


@on_each_transport
@pytest.mark.slow
def test_model_that_raises_a_thousand_times_goes_on_and_grows_nothing(server, client, note):
    poison = rows(1)
    poison[0, 2] = -1

    def fail(count):
        for _ in range(count):
            with pytest.raises(InferenceServerException, match="picky wants no negative value"):
                call(client, "kit", {"x": poison}, "picky")

    fail(200)
    before_mib = server.resident_mib()
    fail(1000)
    growth_mib = server.resident_mib() - before_mib
    np.testing.assert_array_equal(call(client, "kit", {"x": rows(1)}, "picky")["y"], rows(1)[:, :2] * 10)
    note("a model that raises, 1,000 times", "INTERNAL each time; no memory is kept", f"{growth_mib:+.1f} MiB")
    assert growth_mib < 10


@on_each_transport
@pytest.mark.slow
def test_worker_that_hangs_is_told_and_the_others_go_on(start, note):
    server = start("kit", "--stuck-run-timeout", "1")
    with triton.InferenceServerClient(server.address) as client, triton.InferenceServerClient(server.address) as other:
        x = rows(1)
        x[0, 3] = 8000
        hanging = threading.Thread(target=lambda: call(other, "kit", {"x": x}, "slow"))
        began = time.monotonic()
        hanging.start()
        wait_until(lambda: not client.is_server_live())
        told_s = time.monotonic() - began
        assert fetch(server, "v2/health/live")[0] == 503
        assert client.is_server_ready()
        np.testing.assert_array_equal(call(client, "kit", {"x": rows(2)})["y"], rows(2)[:, :2] * 10)
        assert readings(server)["signet_running_requests", "slow"] == 1
        hanging.join()
        wait_until(client.is_server_live)
    log = server.end_of_log()
    assert "1 of its runs take longer than 1 s" in log
    note(
        "a worker that hangs (--stuck-run-timeout 1)",
        "not live, with every thread's place in the log; other signatures are answered; live again when it ends",
        f"not live after {told_s:.1f} s; the others were answered; live again",
    )
    assert server.stop(WAIT_S) == 0
