"""The commands reach servers that want TLS, a client's certificate and a token."""

import asyncio
import json

import pytest
import trustme
from typer.testing import CliRunner

from service import cli
from service.access import make_access
from service.settings import Settings
from service.transports.certificates import credentials_of
from service.transports.grpcio import GrpcioTransport
from service.transports.health import Health
from tests.service.serving import WAIT_S, kit, serving

COMMANDS = (
    "infer clip -s embed -i x=[[1,2]]",
    "bench clip -s embed --duration 0.1 -c 2",
    "export-config clip",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Certificates of one authority, and tokens, all by name."""
    directory = tmp_path_factory.mktemp("files")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "roots")
    for name in ("server", "client"):
        made = authority.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(directory / f"{name}.key")
        made.cert_chain_pems[0].write_to_path(directory / f"{name}.cert")
    (directory / "tokens").write_text("open sesame\n".replace(" ", "-"))
    return directory


@pytest.fixture
def run(files):
    """Return a function that runs commands against a server that wants all of it, and returns their results."""
    settings = Settings(
        grpc_use_ssl_mutual=True,
        grpc_root_cert=files / "roots",
        grpc_server_cert=files / "server.cert",
        grpc_server_key=files / "server.key",
    )

    async def serve(commands, environment):
        with serving(kit()) as served:
            health = Health()
            health.set_live(live=True)
            access = make_access(files / "tokens", None, [])
            transport = GrpcioTransport(
                served.servicer, health, ["127.0.0.1:0"], credentials=credentials_of(settings), access=access
            )
            await transport.start()
            try:
                environment = environment | {"SIGNET_URL": f"grpcs://{transport.addresses[0]}"}
                return [
                    await asyncio.to_thread(CliRunner().invoke, cli.app, [*each.split(), "--json"], env=environment)
                    for each in commands
                ]
            finally:
                await transport.stop(WAIT_S)

    return lambda commands, environment: asyncio.run(serve(commands, environment))


def shown(files):
    return {
        "SIGNET_ROOT_CERT": str(files / "roots"),
        "SIGNET_CLIENT_CERT": str(files / "client.cert"),
        "SIGNET_CLIENT_KEY": str(files / "client.key"),
        "SIGNET_TOKEN": "open-sesame",
    }


def test_commands_show_certificate_and_token(run, files):
    results = run(COMMANDS, shown(files))

    assert [(result.exit_code, result.stderr) for result in results] == [(0, "")] * len(COMMANDS)
    infer, bench, config = (json.loads(result.stdout) for result in results)
    assert infer["outputs"]["z"]["data"] == [[1, 1, 1]]
    assert bench["errors"] == 0
    assert config["name"] == "clip"


def test_missing_token_is_told(run, files):
    (result,) = run(COMMANDS[:1], {**shown(files), "SIGNET_TOKEN": "wrong"})

    assert result.exit_code == 1
    assert "UNAUTHENTICATED" in result.stderr
    assert "wrong" not in result.stderr


def test_missing_file_is_told(run, files):
    (result,) = run(COMMANDS[:1], {**shown(files), "SIGNET_ROOT_CERT": str(files / "nothing")})

    assert (result.exit_code, result.stderr) == (1, f"signet: {files / 'nothing'}: No such file or directory\n")


def test_server_that_nothing_proves_counts_as_away(run, files):
    environment = {name: value for name, value in shown(files).items() if name != "SIGNET_ROOT_CERT"}
    (result,) = run(COMMANDS[1:2], environment)

    assert result.exit_code == 3
