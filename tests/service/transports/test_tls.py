"""TLS on the grpcio transport: who gets in, what plain text gets, and certificates that change."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import grpc
import pytest
import tritonclient.grpc.aio as triton
import trustme
from tritonclient.utils import InferenceServerException

from protos import grpc_service_pb2 as pb
from protos import grpc_service_pb2_grpc
from service.changing_files import ChangingFiles
from service.errors import LoadError
from service.settings import Settings
from service.transports import certificates
from service.transports.certificates import CertificateFiles, certificate_files, credentials_of, server_credentials
from service.transports.grpcio import GrpcioTransport
from service.transports.health import Health
from tests.service.serving import WAIT_S, kit, serving
from tests.service.transports.channels import CLIENT_OPTIONS, failure, run

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
ALERT = b"\x15"
"""What a message of TLS begins with that says no; a frame of HTTP/2 begins with its length, three bytes."""


@pytest.fixture(scope="module")
def authority():
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture(scope="module")
def other_authority():
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def files(authority, tmp_path):
    """A pair of the authority, and the authority as whom to trust."""
    found = CertificateFiles(tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "roots.pem")
    write(found, pair(authority))
    authority.cert_pem.write_to_path(found.roots)
    return found


def pair(authority):
    """A new certificate and its key, in PEM."""
    made = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA)
    return b"".join(part.bytes() for part in made.cert_chain_pems), made.private_key_pem.bytes()


def write(files, contents):
    for path, content in zip(files.paths, contents, strict=False):
        path.write_bytes(content)


def options(files, **more):
    return Settings(grpc_use_ssl=True, grpc_server_cert=files.certificate, grpc_server_key=files.key, **more)


def trusting(authority, contents=(None, None)):
    return grpc.ssl_channel_credentials(authority.cert_pem.bytes(), contents[1], contents[0])


@asynccontextmanager
async def secured(settings_or_credentials, *, address="127.0.0.1:0"):
    """Serve with TLS until the block ends; it gets the address."""
    credentials = settings_or_credentials
    if isinstance(credentials, Settings):
        credentials = credentials_of(credentials)
    with serving(kit()) as served:
        transport = GrpcioTransport(served.servicer, Health(), [address], credentials=credentials)
        await transport.start()
        try:
            yield transport.addresses[0]
        finally:
            await transport.stop(0)


async def ask(address, credentials):
    """Make a call over a new connection."""
    async with grpc.aio.secure_channel(address, credentials, options=CLIENT_OPTIONS) as channel:
        stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
        return await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)


async def served_certificate(address, authority):
    """Return the certificate that a new connection is given, in PEM."""
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    _, writer = await asyncio.open_connection(host, int(port), ssl=context)
    try:
        return ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(binary_form=True)).encode()
    finally:
        writer.transport.abort()


def test_stock_client_that_trusts_the_authority_is_answered(files):
    async def main():
        async with secured(options(files)) as address:
            ssl_options = {"ssl": True, "root_certificates": str(files.roots)}
            async with triton.InferenceServerClient(address, **ssl_options) as client:
                assert await client.is_server_live(client_timeout=WAIT_S)

    run(main)


def test_plain_text_gets_nothing(files):
    async def main():
        async with secured(options(files)) as address:
            async with triton.InferenceServerClient(address) as client:
                with pytest.raises(InferenceServerException) as caught:
                    await client.is_server_live(client_timeout=WAIT_S)
                assert caught.value.status() == "StatusCode.UNAVAILABLE"
            reader, writer = await asyncio.open_connection(*address.split(":"))
            writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
            answer = await reader.read()
            assert answer[:1] in (b"", ALERT)
            writer.close()

    run(main)


def test_client_that_trusts_another_authority_goes_no_further(files, other_authority):
    async def main():
        async with secured(options(files)) as address:
            code, _ = await failure(ask(address, trusting(other_authority)))
            assert code is UNAVAILABLE

    run(main)


def test_mutual_tls_takes_clients_of_the_authority_alone(files, authority, other_authority):
    async def main():
        settings = options(files, grpc_use_ssl_mutual=True, grpc_root_cert=files.roots)
        async with secured(settings) as address:
            assert (await ask(address, trusting(authority, pair(authority)))).live
            for refused in (trusting(authority), trusting(authority, pair(other_authority))):
                code, _ = await failure(ask(address, refused))
                assert code is UNAVAILABLE

    run(main)


def test_unix_sockets_have_their_mode_and_no_tls(files, tmp_path):
    async def main():
        address = f"unix:{tmp_path}/socket"
        async with secured(options(files), address=address), grpc.aio.insecure_channel(address) as channel:
            stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
            assert (await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live

    run(main)


# Certificates that change. ---------------------------------------------------------------------------------------


@pytest.fixture
def at_once(monkeypatch):
    """Files are looked at whenever someone asks."""
    seconds = iter(range(1_000_000))
    monkeypatch.setattr(
        certificates, "ChangingFiles", lambda paths, read: ChangingFiles(paths, read, lambda: next(seconds))
    )


def test_new_connections_get_the_new_certificate_and_old_ones_go_on(files, authority, at_once):
    async def main():
        async with secured(options(files)) as address:
            first = await served_certificate(address, authority)
            async with grpc.aio.secure_channel(address, trusting(authority), options=CLIENT_OPTIONS) as channel:
                stub = grpc_service_pb2_grpc.GRPCInferenceServiceStub(channel)
                assert (await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live
                renewed = pair(authority)
                write(files, renewed)

                second = await served_certificate(address, authority)

                assert first != second
                assert second.strip() in renewed[0].strip()
                assert (await stub.ServerLive(pb.ServerLiveRequest(), timeout=WAIT_S)).live

    run(main)


@pytest.mark.parametrize("kind", ["mismatch", "half", "empty", "gone"])
def test_last_good_pair_stays_while_the_files_are_no_pair_and_one_warning_says_so(
    files, authority, at_once, caplog, kind
):
    renewed = pair(authority)

    def spoil():
        if kind == "mismatch":
            files.certificate.write_bytes(renewed[0])  # the key is still that of the old one
        elif kind == "half":
            files.key.write_bytes(files.key.read_bytes()[:100])
        elif kind == "empty":
            files.certificate.write_bytes(b"")
        else:
            files.key.unlink()

    async def main():
        async with secured(options(files)) as address:
            first = await served_certificate(address, authority)
            spoil()
            for _ in range(3):
                assert await served_certificate(address, authority) == first
            (record,) = [each for each in caplog.records if each.levelname == "WARNING"]
            assert "stays in force" in record.getMessage()
            assert "PRIVATE KEY" not in record.getMessage()

            write(files, renewed)

            assert (await served_certificate(address, authority)).strip() in renewed[0].strip()

    run(main)


def test_those_whom_to_trust_are_read_again_too(files, authority, other_authority, at_once):
    async def main():
        settings = options(files, grpc_use_ssl_mutual=True, grpc_root_cert=files.roots)
        async with secured(settings) as address:
            theirs = trusting(authority, pair(other_authority))
            assert (await failure(ask(address, theirs)))[0] is UNAVAILABLE

            other_authority.cert_pem.write_to_path(files.roots)

            assert (await ask(address, theirs)).live
            assert (await failure(ask(address, trusting(authority, pair(authority)))))[0] is UNAVAILABLE

    run(main)


# What cannot be meant. -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"grpc_server_cert": "c", "grpc_server_key": "k"}, "--grpc-server-cert, --grpc-server-key: only for"),
        ({"grpc_root_cert": "r"}, "--grpc-root-cert: only for"),
        ({"grpc_use_ssl": True}, "need --grpc-server-cert and"),
        ({"grpc_use_ssl": True, "grpc_server_cert": "c"}, "need --grpc-server-cert and"),
        ({"grpc_use_ssl_mutual": True, "grpc_server_cert": "c", "grpc_server_key": "k"}, "needs --grpc-root-cert"),
    ],
)
def test_options_that_would_leave_calls_in_plain_text_are_refused(given, says):
    with pytest.raises(LoadError, match=says):
        certificate_files(Settings(**given))


def test_without_options_there_is_no_tls():
    assert certificate_files(Settings()) is None


@pytest.mark.parametrize("part", ["certificate", "key", "roots"])
@pytest.mark.parametrize("content", [None, b"", b"nonsense"])
def test_files_that_cannot_be_used_end_the_start(files, part, content):
    path = getattr(files, part)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    with pytest.raises(LoadError, match=str(path)):
        server_credentials(files)


def test_files_that_change_while_they_are_read_are_not_used(files, authority):
    contents = [path.read_bytes() for path in files.paths]
    write(files, pair(authority))

    with pytest.raises(ValueError, match="change while they are read"):
        certificates._check(files, contents)
