"""Metrics as text: OpenMetrics where the reader asks for it, else the older format of Prometheus."""

import re
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics

_PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"
_TRITON_COUNTER: Final = re.compile(rb"^# TYPE (nv_\w+) untyped$", re.MULTILINE)


def render(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return all metrics and the type of that text.

    Args:
        registry: of all collectors.
        accept: the header of this name, or "".
    """
    if "application/openmetrics-text" in accept:
        text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
        return text, openmetrics.CONTENT_TYPE_LATEST
    return _TRITON_COUNTER.sub(rb"# TYPE \1 counter", generate_latest(registry)), _PLAIN
