"""TLS for the grpcio transport: the server's certificate and key, and whose client certificates it trusts."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import grpc

from service.changing_files import ChangingFiles
from service.errors import LoadError
from service.settings import Settings

ServerCredentials: TypeAlias = Any
"""A ``grpc.ServerCredentials``, which publishes no types."""


@dataclass(frozen=True)
class CertificateFiles:
    """Where certificates lie, all in PEM.

    Attributes:
        certificate: the server's, and after it those that lead to a root.
        key: its private key, without a password.
        roots: those that must have signed the clients' certificates; None asks clients for none.
    """

    certificate: Path
    key: Path
    roots: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return (self.certificate, self.key, *(() if self.roots is None else (self.roots,)))


def certificate_files(settings: Settings) -> CertificateFiles | None:
    """Return where the certificates lie, None where TLS is not asked for.

    Raises:
        LoadError: the options do not fit together. Above all, files that would not be used are no reason to go on
            without TLS.
    """
    given = {
        "--grpc-server-cert": settings.grpc_server_cert,
        "--grpc-server-key": settings.grpc_server_key,
        "--grpc-root-cert": settings.grpc_root_cert,
    }
    if not (settings.grpc_use_ssl or settings.grpc_use_ssl_mutual):
        if any(given.values()):
            names = ", ".join(name for name, path in given.items() if path is not None)
            raise LoadError(f"{names}: only for --grpc-use-ssl true or --grpc-use-ssl-mutual true")
        return None
    if settings.grpc_server_cert is None or settings.grpc_server_key is None:
        raise LoadError("--grpc-use-ssl and --grpc-use-ssl-mutual need --grpc-server-cert and --grpc-server-key")
    if not settings.grpc_use_ssl_mutual:
        return CertificateFiles(settings.grpc_server_cert, settings.grpc_server_key)
    if settings.grpc_root_cert is None:
        raise LoadError("--grpc-use-ssl-mutual needs --grpc-root-cert")
    return CertificateFiles(settings.grpc_server_cert, settings.grpc_server_key, settings.grpc_root_cert)


def credentials_of(settings: Settings) -> ServerCredentials | None:
    """Return the credentials that the options ask for, None where they ask for plain text.

    Raises:
        LoadError: the options do not fit together, or the files cannot be used.
    """
    files = certificate_files(settings)
    return None if files is None else server_credentials(files)


def server_credentials(files: CertificateFiles) -> ServerCredentials:
    """Return credentials whose certificates are those of the files at the time of each handshake.

    Raises:
        LoadError: a file cannot be read, or certificate and key do not belong together.
    """
    certificates = ChangingFiles(files.paths, lambda contents: _check(files, contents))
    told: list[Any] = [certificates.current()]

    def changed() -> Any:
        """Return the configuration when it is another than last time; gRPC asks at each handshake."""
        current = certificates.current()
        if current is told[0]:
            return None
        told[0] = current
        return current

    return grpc.dynamic_ssl_server_credentials(told[0], changed, require_client_authentication=files.roots is not None)


def _check(files: CertificateFiles, contents: Sequence[bytes]) -> Any:
    """Return what gRPC needs, after making sure that it can use it; gRPC itself would refuse every client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(files.certificate, files.key, password=_no_password)
        if files.roots is not None:
            context.load_verify_locations(cadata=contents[2].decode("ascii"))
    except ssl.SSLError as error:
        raise ValueError(f"no certificate with its key: {error.reason or 'the files cannot be understood'}") from error
    # The check reads the files itself. They may be half of an old and half of a new pair in one of the two readings.
    if [path.read_bytes() for path in files.paths] != list(contents):
        raise ValueError("the files change while they are read")
    roots = contents[2] if files.roots is not None else None
    return grpc.ssl_server_certificate_configuration([(contents[1], contents[0])], root_certificates=roots)


def _no_password() -> str:
    raise ValueError("the private key must not have a password")
