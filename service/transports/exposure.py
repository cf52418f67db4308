"""Tells the operator which addresses are open to other hosts, and what nothing protects there."""

import logging

from service.caller import is_local_address
from service.settings import Settings

logger = logging.getLogger(__name__)


def warn_of_exposure(settings: Settings) -> None:
    """Warn of each address that other hosts can reach without TLS, or without showing who they are."""
    dangers = _dangers(settings)
    if not dangers:
        return
    for address in settings.grpc_targets():
        if not is_local_address(address):
            logger.warning("%s can be reached from other hosts: %s (docs/security.md)", address, " and ".join(dangers))


def _dangers(settings: Settings) -> list[str]:
    dangers = []
    if settings.token_file is None and not settings.grpc_use_ssl_mutual:
        dangers.append("whoever reaches it may call it")
    if not (settings.grpc_use_ssl or settings.grpc_use_ssl_mutual):
        dangers.append("whoever is between may read along")
    return dangers
