"""When there is a status page, and when it may try signatures."""

from service.caller import is_local_address
from service.settings import Settings, StatusPage


def is_offered(settings: Settings) -> bool:
    """Return whether the page is shown on the HTTP port."""
    if settings.status_page is StatusPage.AUTO:
        return _is_for_this_host(settings)
    return settings.status_page is StatusPage.ON


def may_try(settings: Settings) -> bool:
    """Return whether whoever reaches the page may call models over gRPC as well.

    The form must open no way around tokens, clients' certificates, TLS, the permissions of Unix sockets or the loopback
    address.
    """
    if settings.token_file is not None or settings.grpc_use_ssl_mutual or settings.grpc_restricted_protocol:
        return False
    addresses = [address for address in settings.grpc_targets() if not address.startswith("unix:")]
    if _is_for_this_host(settings):
        return bool(addresses)
    return not settings.grpc_use_ssl and not all(map(is_local_address, addresses))


def _is_for_this_host(settings: Settings) -> bool:
    return is_local_address(f"{settings.metrics_address}:{settings.metrics_port}")
