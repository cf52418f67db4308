"""Probes as the kubelet does: ``python -m tests.end_to_end.kubelet ADDRESS SERVICE...``, a process of its own.

Every probe is a Check of grpc.health.v1 on a new connection. A line is printed for each status that is news.
"""

import itertools
import subprocess
import sys
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

PERIOD_S = 0.1
TIMEOUT_S = 3


class Kubelet:
    """Its probes, in a process of their own; ``heard`` are the statuses by service, each when it was news."""

    def __init__(self, address, *services, enter=()):
        """Probe an address; ``enter`` begins the command, such as one that enters a network."""
        self.heard = {service: [] for service in services}
        self._process = subprocess.Popen(
            [*enter, sys.executable, "-m", "tests.end_to_end.kubelet", address, *services],
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.kill()
        self._process.communicate()

    def wait_until_heard(self, service, *statuses):
        """Return when the probes of a service have had these results in this order, and no other."""
        while (heard := self.heard[service]) != list(statuses):
            assert heard == list(statuses[: len(heard)])
            of, status = self._process.stdout.readline().split()
            self.heard[of].append(status)


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
