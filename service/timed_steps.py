"""Telling in the log how long the steps of a load take, for whoever wonders why it takes so long."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Log, as a detail, how long it took to get through the block."""
    begun = time.monotonic()
    yield
    logger.debug("%s: %.3f s", step, time.monotonic() - begun)
