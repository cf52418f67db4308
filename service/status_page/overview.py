"""What the page shows, as JSON's types: models with their states, signatures with their tensors and counters."""

from service.metrics.reading import SignatureReading, label, read
from service.model_version import ServedSignature
from service.repository import Repository
from service.signature import TensorSpec


def models(repository: Repository) -> list[dict[str, str]]:
    """Return every version that is known, as RepositoryIndex lists it."""
    return [
        {"name": label(entry.name), "version": entry.version, "state": entry.state, "reason": label(entry.reason)}
        for entry in repository.index()
    ]


def signatures(repository: Repository) -> list[dict[str, object]]:
    """Return every signature of the versions that are ready; counters are those since the load, times in ms."""
    served = {
        (label(loaded.name), str(loaded.version), label(name)): each
        for name in repository.model_names()
        for loaded in repository.ready_versions(name)
        for name, each in loaded.signatures.items()
    }
    return [
        _signature(reading, served[reading.labels])
        for version in read(repository)
        for reading in version.signatures
        if reading.labels in served  # a version may have become ready in between
    ]


def _signature(reading: SignatureReading, served: ServedSignature) -> dict[str, object]:
    model, version, name = reading.labels
    statistics = reading.statistics
    return {
        "model": model,
        "version": version,
        "signature": name,
        "inputs": [_tensor(spec) for spec in served.signature.inputs],
        "outputs": [_tensor(spec) for spec in served.signature.outputs],
        "effect": served.signature.effect.value,
        "max_batch_size": served.max_batch_size,
        "why_not_batched": served.signature.why_not_batchable,
        "requests": statistics.success.count,
        "failed": statistics.fail.count,
        "rows": statistics.inference_count,
        "runs": statistics.execution_count,
        "queue_ms": statistics.queue.ns / 1e6,
        "total_ms": statistics.success.ns / 1e6,
        "waiting": reading.lane.queued_tasks,
        "running": reading.running,
    }


def _tensor(spec: TensorSpec) -> dict[str, object]:
    return {
        "name": label(spec.name),
        "datatype": spec.datatype.name,
        "shape": spec.shape,
        "optional": spec.optional,
        "text": label(str(spec)),
    }
