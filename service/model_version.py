"""One loaded version of a model: its weights, its signatures with their queues and counters, its scheduler."""

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, cast

import numpy as np

from batching.batch_record import BatchRecord
from batching.options import Joining, Oversize, QueueOptions
from batching.scheduler import BatchScheduler
from service.completed_config import CompletedConfig
from service.errors import InvalidArgumentError, NotFoundError, UnavailableError
from service.labels import Labels
from service.model_statistics import RunDurations, SignatureStatistics, Statistics, total
from service.queue_options import queue_options
from service.servable import Servable
from service.signature import Signature
from service.tracing import note_run

SignatureKey = tuple[str, int, str, tuple[tuple[str, str, tuple[int | None, ...]], ...]]
"""Model, version, signature, and per input its name, datatype and shape without axis 0: what may share a run."""


@dataclass(frozen=True, slots=True)
class ServedSignature:
    """A signature as it is served.

    Attributes:
        signature: its inputs, outputs and effect, as configured.
        max_batch_size: the most rows that a run takes; 0 when its tensors have no batch dimension.
        options: of its queues.
        statistics: its counters.
        labels: by output, the names of its classes.
    """

    signature: Signature
    max_batch_size: int
    options: QueueOptions
    statistics: SignatureStatistics
    labels: Mapping[str, Labels]

    @property
    def cuts_oversize(self) -> bool:
        """Whether a request may have more rows than ``max_batch_size``, because it is cut into parts."""
        return self.options.joining is Joining.JOIN and self.options.oversize is Oversize.CUT


class ModelVersion:
    """One loaded version. Requests go to ``scheduler``, whose workers run them on the one shared servable.

    Attributes:
        load_s: how long it took to load, in seconds; set by whoever loads it.
    """

    load_s = 0.0

    def __init__(
        self,
        name: str,
        version: int,
        servable: Servable,
        config: CompletedConfig,
        *,
        oversize: Oversize,
        labels: Mapping[str, Mapping[str, Labels]] = MappingProxyType({}),
    ) -> None:
        """Take a servable into service.

        Args:
            name: the model's name.
            version: its number.
            servable: owned from now on; ``close`` closes it.
            config: completed from the servable's signatures.
            oversize: what happens to requests with more rows than a batch may have.
            labels: by signature and output, the names of its classes.
        """
        self.name: Final = name
        self.version: Final = version
        self.config: Final = config
        self.servable: Final = servable
        self.signatures: Final = {
            key: ServedSignature(
                signature,
                config.max_batch_size(key),
                queue_options(signature, config, oversize, model=name),
                SignatureStatistics(),
                labels.get(key, {}),
            )
            for key, signature in config.signatures.items()
        }
        self.aliases_used: Final[set[str]] = set()
        self._held: Final = ExitStack()
        self.scheduler: Final = BatchScheduler(
            self._run, workers=config.instance_count, name=f"{name}-{version}", observe=self._record_run
        )

    def __repr__(self) -> str:
        return f"<ModelVersion {self.name} {self.version}: {len(self.signatures)} signatures, {self.scheduler!r}>"

    def find_signature(self, named: str | None) -> ServedSignature:
        """Return the signature that a request asks for.

        Args:
            named: what the request's parameter says; None means the default.

        Raises:
            InvalidArgumentError: there is no such signature, or none was named and there is no default.
            UnavailableError: the model has the signature but it cannot be run.
        """
        key = named or self.config.default_signature
        if key is None:
            raise InvalidArgumentError(
                f"model '{self.name}' version {self.version} has no default signature: name one in the request "
                f"parameter 'signature'; {self._available()}"
            )
        return self._find(key, InvalidArgumentError)

    def find_alias(self, key: str) -> ServedSignature:
        """Return the signature that the name ``MODEL:SIGNATURE`` means.

        Raises:
            NotFoundError: there is no such signature.
            UnavailableError: the model has the signature but it cannot be run.
        """
        return self._find(key, NotFoundError)

    def _find(self, key: str, missing: type[InvalidArgumentError | NotFoundError]) -> ServedSignature:
        found = self.signatures.get(key)
        if found is not None:
            return found
        reason = self.servable.unavailable.get(key)
        if reason is not None:
            raise UnavailableError(
                f"signature '{key}' of model '{self.name}' version {self.version} cannot be served: {reason}"
            )
        raise missing(f"model '{self.name}' version {self.version} has no signature '{key}'; {self._available()}")

    def _available(self) -> str:
        return "available: " + ", ".join(map(repr, self.signatures))

    def statistics(self, signature: str | None = None) -> Statistics:
        """Return the counters of one signature, or of all of them together."""
        chosen = self.signatures.values() if signature is None else [self.signatures[signature]]
        return total(served.statistics for served in chosen)

    def hold(self, resource: AbstractContextManager[object]) -> None:
        """Enter a context that is left when this version is closed."""
        self._held.enter_context(resource)

    def close(self, timeout_s: float | None) -> None:
        """Finish what was taken, then free the weights.

        Args:
            timeout_s: after so many seconds what still waits is failed, None for never; what runs is always waited for.
        """
        self.scheduler.drain(timeout_s)
        self.scheduler.stop()
        with self._held:
            self.servable.close()

    def run(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
        """Run a signature once, at once, in the calling thread; all shapes are those that callers see.

        Raises:
            InternalError: the model failed.
        """
        reshaping = self.config.reshapings[signature]
        return reshaping.to_callers(self.servable.run(signature, reshaping.to_model(inputs), outputs))

    def run_everywhere(self, signature: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> None:
        """Run a signature once on each device that it may run on, at once, in the calling thread; raises as ``run``."""
        self.servable.run_everywhere(signature, self.config.reshapings[signature].to_model(inputs), outputs)

    def _run(self, key: Hashable, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> Mapping[str, np.ndarray]:
        return self.run(_signature_of(key), inputs, outputs)

    def _record_run(self, record: BatchRecord) -> None:
        if record.traces:
            note_run(record)
        durations = RunDurations(record.compute_input_ns, record.compute_infer_ns, record.compute_output_ns)
        self.signatures[_signature_of(record.key)].statistics.record_run(record.size, durations)


def _signature_of(key: Hashable) -> str:
    return cast("SignatureKey", key)[2]
