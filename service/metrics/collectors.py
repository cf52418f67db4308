"""What Prometheus's library asks for numbers when a reader comes."""

from collections.abc import Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.admission import Admission, Limit
from service.metrics import own, triton
from service.metrics.reading import label, read
from service.open_connections import count_connections
from service.repository import Repository

_HELD: Final = (
    ("signet_requests_in_flight", "Inference requests that were taken and not answered yet.", Limit.REQUESTS),
    ("signet_bytes_in_flight", "Bytes of their inputs.", Limit.BYTES),
    ("signet_open_streams", "Calls of ModelStreamInfer that are open.", Limit.STREAMS),
)


class ModelCollector(Collector):
    """The numbers of the models, and the state of each of their versions."""

    def __init__(self, repository: Repository) -> None:
        self._repository: Final = repository

    def collect(self) -> Iterator[Metric]:
        """Yield every family, also those that have no series because no model is ready."""
        readings = read(self._repository)
        yield from triton.families(readings)
        yield from own.families(readings)
        yield self._states()

    def _states(self) -> Metric:
        family = GaugeMetricFamily(
            "signet_model_state", "1 for the state in which a version is.", labels=("model", "version", "state")
        )
        for entry in self._repository.index():
            if entry.state:
                family.add_metric((label(entry.name), entry.version, entry.state), 1)
        return family


class ServerCollector(Collector):
    """What the server says of itself, of its limits and of its clients."""

    def __init__(self, version: str, admission: Admission, addresses: Sequence[str]) -> None:
        self._version: Final = version
        self._admission: Final = admission
        self._addresses: Final = addresses

    def collect(self) -> Iterator[Metric]:
        """Yield the families without a model."""
        yield InfoMetricFamily("signet_build", "The running program.", value={"version": self._version})
        counts = self._admission.counts()
        for name, text, limit in _HELD:
            yield GaugeMetricFamily(name, text, value=counts.held[limit])
        refused = CounterMetricFamily(
            "signet_refused_requests", "Requests and streams refused at a limit of the server.", labels=("limit",)
        )
        for limit, count in counts.refused.items():
            refused.add_metric((limit.value,), count)
        yield refused
        connections = count_connections(self._addresses)
        if connections is not None:
            yield GaugeMetricFamily("signet_open_connections", "Connections to the gRPC addresses.", value=connections)


def make_registry(
    repository: Repository, version: str, admission: Admission, addresses: Sequence[str] = ()
) -> CollectorRegistry:
    """Return what ``exposition.render`` makes text of.

    Args:
        repository: whose models are told of.
        version: of the server.
        admission: of the server.
        addresses: where the server takes gRPC calls.
    """
    registry = CollectorRegistry()
    registry.register(ModelCollector(repository))
    registry.register(ServerCollector(version, admission, addresses))
    ProcessCollector(registry=registry)
    return registry
