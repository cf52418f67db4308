"""When there is a status page, and when it may try signatures."""

from service.caller import is_local_address
from service.settings import Settings, StatusPage


def is_offered(settings: Settings) -> bool:
    """Return whether the page is shown on the HTTP port."""
    if settings.status_page is StatusPage.AUTO:
        return is_local_address(f"{settings.metrics_address}:{settings.metrics_port}")
    return settings.status_page is StatusPage.ON


def may_try(settings: Settings) -> bool:
    """Return whether whoever reaches the page may call models over gRPC as well.

    The form must open no way around tokens, clients' certificates or the permissions of Unix sockets.
    """
    is_guarded = settings.token_file is not None or settings.grpc_use_ssl_mutual or settings.grpc_restricted_protocol
    return not is_guarded and any(not address.startswith("unix:") for address in settings.grpc_address)
