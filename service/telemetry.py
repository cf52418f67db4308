"""Whether requests are traced. The packages for it are optional, and only loaded when they are asked for."""

from typing import TYPE_CHECKING

import service
from service.errors import LoadError
from service.settings import Settings

if TYPE_CHECKING:
    from service.spans import SpanTracer


def tracer_from(settings: Settings) -> "SpanTracer | None":
    """Return the tracer that the options ask for, None where they ask for none.

    Raises:
        LoadError: the packages are not installed.
    """
    if settings.otlp_endpoint is None:
        return None
    try:
        from service.spans import export_to  # noqa: PLC0415 - see above
    except ImportError as error:
        raise LoadError(f"--otlp-endpoint needs the extra 'tracing' of signet-server: {error}") from error
    return export_to(settings.otlp_endpoint, settings.otlp_sampling_rate, service.__version__)
