"""What Prometheus's library asks for numbers when a reader comes."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from service.metrics import own, triton
from service.metrics.reading import label, read
from service.repository import Repository


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
    """What the server says of itself."""

    def __init__(self, version: str) -> None:
        self._version: Final = version

    def collect(self) -> Iterator[Metric]:
        """Yield the families without a model."""
        yield InfoMetricFamily("signet_build", "The running program.", value={"version": self._version})


def make_registry(repository: Repository, version: str) -> CollectorRegistry:
    """Return what ``exposition.render`` makes text of.

    Args:
        repository: whose models are told of.
        version: of the server.
    """
    registry = CollectorRegistry()
    registry.register(ModelCollector(repository))
    registry.register(ServerCollector(version))
    ProcessCollector(registry=registry)
    return registry
