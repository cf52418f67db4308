"""Probes as the kubelet does: ``python -m tests.end_to_end.kubelet ADDRESS SERVICE...``, a process of its own.

Every probe is a Check of grpc.health.v1 on a new connection. A line is printed for each status that is news.
"""

import itertools
import sys
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

PERIOD_S = 0.1
TIMEOUT_S = 3


def probe(address, service):
    """Return the name of the status, or that of the error."""
    with grpc.insecure_channel(address) as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(request, timeout=TIMEOUT_S)
        except grpc.RpcError as error:
            return error.code().name
    return health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def main():
    address, *services = sys.argv[1:]
    last = {}
    for service in itertools.cycle(services):
        status = probe(address, service)
        if last.get(service) != status:
            print(service, status, flush=True)  # noqa: T201 - for the test that started it
            last[service] = status
        time.sleep(PERIOD_S)


if __name__ == "__main__":
    main()
