"""What clients do to their calls leaves no lines in the log, which they could fill else."""

import pytest

from service import logs
from service.logs import LogOptions
from tests.service.serving import kit, serving
from tests.service.transports import raw_http2
from tests.service.transports.channels import connected, run

pytestmark = pytest.mark.usefixtures("each_transport")

SERVICE = "/inference.GRPCInferenceService/"


@pytest.mark.parametrize("method", ["ModelStreamInfer", "ModelInfer", "ServerLive"])
def test_messages_that_cannot_be_decompressed_are_not_logged(method, capsys):
    logs.configure(LogOptions(verbose_level=1))

    async def main():
        with serving(kit()) as served:
            async with connected(served) as client:
                capsys.readouterr()
                for _ in range(60):  # one in ten was
                    await raw_http2.call(
                        client.address, SERVICE + method, b"junk", [(b"grpc-encoding", b"gzip")], is_compressed=True
                    )

    run(main)
    assert "Traceback" not in capsys.readouterr().err
