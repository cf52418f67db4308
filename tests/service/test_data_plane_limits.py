"""Requests beyond the server's limits are refused at once, and whatever ends a request makes room for the next."""

import time

import pytest

from protos import grpc_service_pb2 as pb
from service.admission import Limit
from service.errors import UnavailableError
from service.request import InferResponse
from tests.service.serving import Answer, Busy, kit, message, rows, serving

NBYTES = rows(1).nbytes


def held(served):
    counts = served.data_plane.admission.counts().held
    return counts[Limit.REQUESTS], counts[Limit.BYTES]


def test_request_beyond_the_limit_is_unavailable_and_never_run():
    with Busy(limits={Limit.REQUESTS: 3}) as busy:
        waiting = [busy.served.submit(message())[0] for _ in range(2)]
        refused, ticket = busy.served.submit(message())
        assert refused.came
        assert ticket.was_refused
        assert isinstance(refused.wait(), UnavailableError)
        assert held(busy.served) == (3, 3 * NBYTES)
        busy.gate.opened.set()
        assert all(isinstance(answer.wait(), InferResponse) for answer in waiting)
        assert isinstance(busy.served.send(message()), InferResponse)
        assert busy.served.statistics("clip").fail.count == 0


def test_bytes_are_counted_over_all_signatures():
    with Busy(limits={Limit.BYTES: 4 * NBYTES}) as busy:
        busy.served.submit(message({"x": rows(1, 2)}))
        assert isinstance(busy.served.submit(message({"x": rows(1, 2)}, signature="embed"))[0].wait(), UnavailableError)
        busy.served.submit(message(signature="embed"))
        assert held(busy.served) == (3, 4 * NBYTES)


@pytest.mark.parametrize("is_raw", [True, False])
def test_strings_are_counted_with_what_their_objects_take(is_raw):
    words = [b"a", b"", b"abc"]
    request = pb.ModelInferRequest(model_name="clip", parameters={"signature": pb.InferParameter(string_param="text")})
    request.inputs.add(name="s", datatype="BYTES", shape=[3])
    if is_raw:
        request.raw_input_contents.append(b"".join(len(word).to_bytes(4, "little") + word for word in words))
    else:
        request.inputs[0].contents.bytes_contents.extend(words)
    with Busy() as busy:
        before = held(busy.served)[1]
        for _ in range(2):  # the second one is of a known form
            busy.served.answers.append(answer := Answer())
            busy.served.servicer.infer(request.SerializeToString(), None, answer)
        counted = held(busy.served)[1] - before
        busy.gate.opened.set()

    assert counted == 2 * (4 + 3 * 48 + (12 if is_raw else 0))


@pytest.mark.parametrize("end", ["cancel", "timeout", "deadline", "full queue", "unloading"])
def test_request_that_is_not_run_makes_room(end, tmp_path):
    (tmp_path / "config.pbtxt").write_text("dynamic_batching { default_queue_policy { max_queue_size: 1 } }")
    path = tmp_path / "config.pbtxt" if end == "full queue" else None
    with Busy(config_path=path, limits={Limit.REQUESTS: 10}) as busy:
        answer, ticket = busy.served.submit(
            message(timeout=1 if end == "timeout" else 0), deadline=time.monotonic() if end == "deadline" else None
        )
        if end == "cancel":
            ticket.cancel()
        elif end == "full queue":
            assert "Exceeds maximum queue size" in str(busy.served.send(message()))
            assert held(busy.served)[0] == 2
            return
        elif end == "unloading":
            busy.served.repository.unload("clip")
            busy.gate.opened.set()
        answer.wait()
        if end != "unloading":
            assert held(busy.served) == (1, NBYTES)


def test_request_that_fails_in_the_model_makes_room():
    def fail(_inputs):
        raise RuntimeError("a defect")

    with serving(kit(embed=fail), limits={Limit.REQUESTS: 1}) as served:
        for _ in range(3):
            assert "internal error" in str(served.send(message(signature="embed")))
        assert isinstance(served.send(message()), InferResponse)


def test_request_that_is_wrong_is_not_counted():
    with serving(kit(), limits={Limit.REQUESTS: 1}) as served:
        served.send(message(signature="nope"))
        served.send(message({"x": rows(1)[:, :1]}))
        assert held(served) == (0, 0)
        assert not any(served.data_plane.admission.counts().refused.values())
