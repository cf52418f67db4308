"""The port for probes answers gRPC health and HTTP, and nothing else."""

import http.client
from contextlib import closing

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from protos import grpc_service_pb2 as pb
from service.http import port as port_module
from service.http.exchange import Page
from service.http.port import HttpPort
from service.transports.health_server import HealthServer

WAIT_S = 30
Status = health_pb2.HealthCheckResponse


@pytest.fixture
def server():
    with closing(HealthServer()) as made:
        yield made


@pytest.fixture
def port(server):
    with closing(HttpPort("127.0.0.1", 0, lambda _request: Page(b"page"), server.path)) as made:
        yield made


@pytest.fixture
def channel(port):
    with grpc.insecure_channel(port.address) as made:
        yield made


def check(channel, service):
    request = health_pb2.HealthCheckRequest(service=service)
    return health_pb2_grpc.HealthStub(channel).Check(request, timeout=WAIT_S, wait_for_ready=True).status


def fetch(port):
    host, number = port.address.split(":")
    with closing(http.client.HTTPConnection(host, int(number), timeout=WAIT_S)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().read()


def test_both_protocols_are_answered_on_one_port(server, port, channel):
    server.set("readiness", Status.SERVING)
    server.set("liveness", Status.NOT_SERVING)

    assert check(channel, "readiness") == Status.SERVING
    assert check(channel, "liveness") == Status.NOT_SERVING
    assert fetch(port) == b"page"


def test_unknown_service_is_not_found(channel):
    with pytest.raises(grpc.RpcError) as failure:
        check(channel, "nobody")
    assert failure.value.code() is grpc.StatusCode.NOT_FOUND


def test_watch_tells_every_change(server, channel):
    server.set("", Status.NOT_SERVING)
    watch = health_pb2_grpc.HealthStub(channel).Watch(
        health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True
    )
    assert next(watch).status == Status.NOT_SERVING
    server.set("", Status.SERVING)
    assert next(watch).status == Status.SERVING
    watch.cancel()


def test_many_watches_hold_no_thread(server, channel):
    server.set("", Status.SERVING)
    stub = health_pb2_grpc.HealthStub(channel)
    watches = [stub.Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True) for _ in range(50)]
    assert {next(watch).status for watch in watches} == {Status.SERVING}

    assert check(channel, "") == Status.SERVING
    for watch in watches:
        watch.cancel()


def test_no_inference_is_served_there(channel):
    infer = channel.unary_unary(
        "/inference.GRPCInferenceService/ServerLive",
        request_serializer=pb.ServerLiveRequest.SerializeToString,
        response_deserializer=pb.ServerLiveResponse.FromString,
    )
    with pytest.raises(grpc.RpcError) as failure:
        infer(pb.ServerLiveRequest(), timeout=WAIT_S, wait_for_ready=True)
    assert failure.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_watches_of_many_connections_shut_no_probe_out(server, port):
    server.set("", Status.SERVING)
    channels, watches = [], []
    try:
        for number in range(port_module._MAX_CONNECTIONS + 10):
            options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_retries", 0)]
            channels.append(grpc.insecure_channel(port.address, options=options))
            stub = health_pb2_grpc.HealthStub(channels[-1])
            watches.append(stub.Watch(health_pb2.HealthCheckRequest(), timeout=WAIT_S, wait_for_ready=True))
            assert next(watches[-1]).status == Status.SERVING, number
        assert fetch(port) == b"page"
        with pytest.raises(grpc.RpcError) as failure:
            next(watches[0])
        assert failure.value.code() is grpc.StatusCode.UNAVAILABLE
    finally:
        for each in channels:
            each.close()
