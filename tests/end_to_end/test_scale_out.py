"""Three servers behind gRPC's own balancing and behind a proxy: replaced one by one, and killed, under load.

What is promised here stands in docs/scaling.md.
"""

import json
from contextlib import ExitStack

import pytest
import tritonclient.grpc as triton

from tests.documents import blocks
from tests.end_to_end.calls import call, rows
from tests.end_to_end.fleet import Fleet
from tests.end_to_end.load import Load
from tests.end_to_end.nginx import NGINX, Nginx

pytestmark = pytest.mark.end_to_end

LARGE = 20_000
"""Rows of a request of more than 256 KiB, which gRPC does not keep for a retry unless told to."""
UNAVAILABLE = "StatusCode.UNAVAILABLE"

UNLIMITED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
# Without a name of its own for all addresses, a channel says "a:1,b:1" to servers, which some refuse.
BALANCED = (*UNLIMITED, ("grpc.lb_policy_name", "round_robin"), ("grpc.default_authority", "signet"))

(BLOCK,) = [block for block in blocks("json") if block.file.name == "scaling.md"]
DOCUMENTED = json.loads(BLOCK.text)
"""Turns, each server asked whether it is ready, and a retry policy."""
WATCHING = {name: DOCUMENTED[name] for name in ("loadBalancingConfig", "healthCheckConfig")}
RETRYING = {name: DOCUMENTED[name] for name in ("methodConfig", "retryThrottling")}


def configured(arguments, service_config):
    """Return channel arguments with a service configuration, and with room for a large request to be kept."""
    return (
        *arguments,
        ("grpc.service_config", json.dumps(service_config)),
        ("grpc.per_rpc_retry_buffer_size", 16 << 20),
    )


TRANSPORTS = ["grpcio", pytest.param("native", marks=pytest.mark.slow)]


@pytest.fixture(scope="module", params=TRANSPORTS)
def transport(request):
    return request.param


@pytest.fixture(scope="module")
def started_fleet(transport, export):
    with Fleet(export("kit"), "--transport", transport, "--default-max-batch-size", str(LARGE)) as running:
        yield running


@pytest.fixture
def fleet(started_fleet):
    """Three servers, all of them ready."""
    started_fleet.make_whole()
    return started_fleet


@pytest.fixture(scope="module")
def nginx(started_fleet, tmp_path_factory):
    if NGINX is None:
        pytest.skip("there is no nginx on this machine (Debian: nginx-light)")
    with Nginx(tmp_path_factory.mktemp("nginx"), started_fleet.replicas) as proxy:
        yield proxy


def test_calls_are_spread_evenly(fleet):
    with triton.InferenceServerClient(fleet.target, channel_args=list(BALANCED)) as client:
        connect_to_all(client, fleet)
        before = [replica.requests() for replica in fleet.replicas]
        for _ in range(30):
            call(client, "kit", {"x": rows(1)})

    assert [replica.requests() - earlier for replica, earlier in zip(fleet.replicas, before, strict=True)] == [10] * 3


def connect_to_all(client, fleet):
    """Call until every server has been reached: the first calls go to those whose connections are up first."""
    before = [replica.requests() for replica in fleet.replicas]
    while any(replica.requests() == earlier for replica, earlier in zip(fleet.replicas, before, strict=True)):
        call(client, "kit", {"x": rows(1)})


@pytest.mark.parametrize("replaced", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_rolling_replacement_costs_no_call(fleet, nginx, transport, replaced):
    """The native transport sends no GOAWAY, so clients that do not ask again stay with grpcio."""
    clients = {"retrying": (fleet.target, configured(BALANCED, DOCUMENTED))}
    if transport == "grpcio":
        clients["watching"] = fleet.target, configured(BALANCED, WATCHING)
        clients["behind nginx"] = nginx.address, UNLIMITED
    with ExitStack() as stack:
        loads = {
            name: stack.enter_context(Load(target, 3, channel_args, milliseconds=60))
            for name, (target, channel_args) in clients.items()
        }
        for replica in fleet.replicas[:replaced]:
            replace(replica, fleet, nginx, loads.values())

    assert {name: load.outcomes.failed for name, load in loads.items()} == {name: {} for name in clients}


def replace(replica, fleet, nginx, loads):
    """Replace a server by a new one, as a rolling update does: out of rotation, end, start, ready, in rotation."""
    nginx.rotate([each for each in fleet.replicas if each is not replica])
    assert replica.finish() == 0
    answer_more(loads)
    fleet.make_whole()
    nginx.rotate(fleet.replicas)
    answer_more(loads)


def answer_more(loads):
    for load in loads:
        load.wait_for_answers(10)


def test_killing_a_server_costs_the_calls_it_was_running_and_nothing_with_a_retry_policy(fleet, nginx):
    with ExitStack() as stack:

        def load(*arguments, count=1):
            # So many and so long that some run on the server that is killed.
            return stack.enter_context(Load(*arguments, count=count, milliseconds=100))

        plain = [load(fleet.target, 6, BALANCED), load(nginx.address, 6, UNLIMITED)]
        retrying = [
            load(fleet.target, 6, configured(BALANCED, DOCUMENTED)),
            load(fleet.target, 2, configured(BALANCED, DOCUMENTED), count=LARGE),
            load(nginx.address, 6, configured(UNLIMITED, RETRYING)),
        ]
        answer_more([*plain, *retrying])
        fleet.replicas[0].kill()
        answer_more(plain)
        failed_at_once = [each.outcomes.failed.total() for each in plain]
        answer_more([*plain, *retrying])

    assert [each.outcomes.failed for each in retrying] == [{}] * 3
    assert sum(failed_at_once) > 0
    assert failed_at_once == [each.outcomes.failed.total() for each in plain]
    for each in plain:
        assert set(each.outcomes.statuses()) <= {UNAVAILABLE}
        # A caller waits for one call at a time. Its next one may take the broken connection, too, while that is news.
        assert max(each.outcomes.failed.values(), default=0) <= 2
