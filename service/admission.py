"""How much the server takes on at a time, over all models, so that overload costs refusals and not memory."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import Final

from service.errors import ResourceExhaustedError, UnavailableError
from service.memory_limit import memory
from service.settings import Settings

_SHARE_OF_MEMORY: Final = 4
"""What part of all memory inputs may take where no option says how much."""


class Limit(Enum):
    """What there is a limit on; the value is the option that sets it."""

    REQUESTS = "max_requests_in_flight"
    """Inference requests that were taken and not answered yet."""
    BYTES = "max_bytes_in_flight"
    """Their inputs."""
    STREAMS = "max_streams"
    """Calls of ModelStreamInfer that are open."""
    MESSAGE = "grpc_max_receive_message_length"
    """Bytes of one message. Nothing is held; what grpcio refuses, it does not tell of."""


@dataclass(frozen=True, slots=True)
class AdmissionCounts:
    """What is held at one moment, and what was refused since the start, by the limit that it ran into."""

    held: Mapping[Limit, int]
    refused: Mapping[Limit, int]


class Admission:
    """Counts what is held, and refuses more than the limits. May be used from any thread.

    A request is taken in any case when no other is held, however large it is.
    """

    def __init__(self, limits: Mapping[Limit, int] | None = None) -> None:
        """Create an admission of which nothing is used.

        Args:
            limits: the most that may be held at a time; what is left out or 0 has no limit.
        """
        self._limits: Final = dict.fromkeys(Limit, 0) | dict(limits or {})
        self._max_requests: Final = self._limits[Limit.REQUESTS]
        self._max_bytes: Final = self._limits[Limit.BYTES]
        self._requests = 0
        self._bytes = 0
        self._streams = 0
        self._refused: Final[Counter[Limit]] = Counter()
        self._lock: Final = threading.Lock()

    def __repr__(self) -> str:
        return f"<Admission {self._requests} requests, {self._bytes} bytes, {self._streams} streams>"

    def enter(self, nbytes: int) -> None:
        """Take a request; ``leave`` must be called with the same number when it is answered.

        Args:
            nbytes: size of its inputs.

        Raises:
            UnavailableError: a limit is reached.
        """
        with self._lock:  # critical section: a handful of numbers, for every request
            if self._max_requests and self._requests >= self._max_requests:
                raise self._refusal(Limit.REQUESTS, "requests in flight")
            if self._max_bytes and self._requests and self._bytes + nbytes > self._max_bytes:
                raise self._refusal(Limit.BYTES, "bytes of requests in flight")
            self._requests += 1
            self._bytes += nbytes

    def leave(self, nbytes: int, requests: int = 1) -> None:
        """Note that a request is answered, or several with so many bytes together."""
        with self._lock:
            self._requests -= requests
            self._bytes -= nbytes

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Hold a stream during the block.

        Raises:
            UnavailableError: there are as many as may be.
        """
        with self._lock:
            if 0 < self._limits[Limit.STREAMS] <= self._streams:
                raise self._refusal(Limit.STREAMS, "open streams")
            self._streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1

    def refuse_message(self, nbytes: int, limit: int) -> ResourceExhaustedError:
        """Count a message that is too large, and return the error for it, in the words of grpcio that clients know."""
        with self._lock:
            self._refused[Limit.MESSAGE] += 1
        return ResourceExhaustedError(f"CLIENT: Received message larger than max ({nbytes} vs. {limit})")

    def counts(self) -> AdmissionCounts:
        """Return the numbers of this moment."""
        with self._lock:
            held = {Limit.REQUESTS: self._requests, Limit.BYTES: self._bytes, Limit.STREAMS: self._streams}
            return AdmissionCounts(held, {limit: self._refused[limit] for limit in Limit})

    def _refusal(self, limit: Limit, unit: str) -> UnavailableError:
        self._refused[limit] += 1
        return UnavailableError(f"the server is busy: its limit is {self._limits[limit]} {unit} ({limit.value})")


def admission_from(settings: Settings) -> Admission:
    """Return the admission that the options ask for."""
    limits = {limit: getattr(settings, limit.value) for limit in Limit}
    if limits[Limit.BYTES] is None:
        room = memory()
        limits[Limit.BYTES] = room.limit // _SHARE_OF_MEMORY if room else 0
    return Admission(limits)
