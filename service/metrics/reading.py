"""The numbers of every ready version at one moment, from which the families of metrics are made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from batching.counts import Counts, LaneCounts
from service.devices import Device
from service.model_statistics import Statistics, sum_of
from service.model_version import ModelVersion, ServedSignature
from service.repository import Repository

_NOTHING_YET: Final = LaneCounts(
    queued_tasks=0,
    queued_rows=0,
    queues={},
    started_tasks=0,
    waited_s=0.0,
    longest_wait_s=0.0,
    runs={},
    failed_runs=0,
    retried_runs=0,
    drops={},
    mismatch=None,
)


@dataclass(frozen=True, slots=True)
class SignatureReading:
    """The numbers of one signature.

    Attributes:
        labels: values for the labels model, version and signature.
        statistics: its counters.
        lane: what its requests do in the batcher; zeros before the first.
        running: requests that run.
        compilations: how often XLA compiled it; None where it does not.
    """

    labels: tuple[str, str, str]
    statistics: Statistics
    lane: LaneCounts
    running: int
    compilations: int | None


@dataclass(frozen=True, slots=True)
class VersionReading:
    """The numbers of one version.

    Attributes:
        labels: values for the labels model and version.
        statistics: the sums over its signatures.
        pending: requests that wait.
        load_s: how long it took to load, in seconds.
        device_runs: how many runs each device has begun, by its name.
        signatures: each one's numbers.
    """

    labels: tuple[str, str]
    statistics: Statistics
    pending: int
    load_s: float
    device_runs: Mapping[str, int]
    signatures: Sequence[SignatureReading]


def label(text: str) -> str:
    """Return a text as the value of a label, which cannot hold the bytes of a file's name that are no UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def read(repository: Repository) -> list[VersionReading]:
    """Return the numbers of every ready version. What callers name and no model has is not among them."""
    return [_read_version(loaded) for name in repository.model_names() for loaded in repository.ready_versions(name)]


def _read_version(loaded: ModelVersion) -> VersionReading:
    counts = loaded.scheduler.counts()
    labels = label(loaded.name), str(loaded.version)
    compilations = loaded.servable.compilations()
    signatures = [
        _read_signature(labels, served, counts, compilations.get(name)) for name, served in loaded.signatures.items()
    ]
    device_runs = {_name(device): runs for device, runs in loaded.servable.device_runs().items()}
    statistics = sum_of(signature.statistics for signature in signatures)
    return VersionReading(labels, statistics, counts.queued_tasks, loaded.load_s, device_runs, signatures)


def _name(device: Device | None) -> str:
    return "any" if device is None else str(device)


def _read_signature(
    labels: tuple[str, str], served: ServedSignature, counts: Counts, compilations: int | None
) -> SignatureReading:
    return SignatureReading(
        labels=(*labels, label(served.signature.name)),
        statistics=served.statistics.snapshot(),
        lane=counts.lanes.get(served.options, _NOTHING_YET),
        running=counts.running.get(served.options, 0),
        compilations=compilations,
    )
