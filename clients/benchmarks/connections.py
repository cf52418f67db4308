"""What connections cost a server in memory: idle ones, and after a request over each."""

import asyncio
import resource
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import grpc
import psutil
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc import service_pb2_grpc

from clients.benchmarks.conditions import Conditions
from clients.benchmarks.contenders import ServerContender, start
from clients.benchmarks.figures import Spread
from clients.benchmarks.inputs import make_batch
from clients.benchmarks.models import MODELS
from clients.benchmarks.report import table
from clients.benchmarks.scenarios import Load, Scenario
from clients.benchmarks.variants import Variant

NAME: Final = "connections"
TITLE: Final = "Memory of 1,000 connections"
CONNECTIONS: Final = 1000
_FIRST: Final = 20
"""So many come and go before anything is read: they pay for what a server sets up once."""
_TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05
_EXPLANATION: Final = (
    f"{CONNECTIONS:,} connections of one client are opened, then a small request goes over each, one after the other,"
    " then all are closed. Resident memory of all processes of the server beside that of the server alone, median over"
    " the rounds (least..greatest). What is left at the end is used again by later connections."
)
_OWN_CONNECTION: Final = [("grpc.use_local_subchannel_pool", 1)]
_SIGNATURE: Final = "scores"
SCENARIO: Final = Scenario(
    NAME,
    TITLE,
    "toy",
    (Load("", (_SIGNATURE,)),),
    (1,),
    variants=(Variant("Signet"), Variant("Signet on grpcio", ("--transport", "grpcio"))),
)


@dataclass(frozen=True)
class Memory:
    """Resident memory of all processes of a server, in MiB.

    Attributes:
        alone: with no connection, after some that came and went.
        idle: with connections that were opened and not used.
        used: with the same ones after a request over each.
        left: after all of them were closed.
    """

    alone: float
    idle: float
    used: float
    left: float


def measure(
    variants: Sequence[Variant], peers: Path | None, work: Path, rounds: int, tell: Callable[[str], object]
) -> dict[str, list[Memory]]:
    """Return for each contender a measurement per round. Each has a new server: what one has freed it uses again.

    Args:
        variants: the ways to start Signet.
        peers: where Triton is; None leaves it out.
        work: a directory that holds ``models/toy`` and takes everything else.
        rounds: at least one.
        tell: called with the name of each round before it begins.

    Raises:
        ServerProcessError, TritonError: a server did not start.
    """
    _allow_files()
    taken: dict[str, list[Memory]] = {}
    for number in range(1, rounds + 1):
        tell(f"round {number} of {rounds}")
        place = work / f"{NAME}-{number}"
        place.mkdir(parents=True)
        (place / "models").symlink_to((work / "models").resolve())
        with start(SCENARIO, variants, peers, place) as contenders:
            for contender in contenders:
                if isinstance(contender, ServerContender):
                    taken.setdefault(contender.label, []).append(asyncio.run(measure_server(contender, CONNECTIONS)))
    return taken


def to_markdown(taken: dict[str, list[Memory]], conditions: Conditions) -> str:
    """Return the page for what ``measure`` took."""
    headings = (
        "server",
        "alone, MiB",
        "idle connections, MiB more",
        "after a request each, MiB more",
        "closed, MiB more",
    )
    versions = ", ".join(f"{name} {version}" for name, version in conditions.versions.items())
    parts = [
        f"# {TITLE}",
        f"{conditions.machine}. {versions}. {conditions.rounds} rounds, each with new servers.",
        _EXPLANATION,
        table(headings, ((label, *_cells(memories)) for label, memories in taken.items())),
    ]
    return "\n\n".join(parts) + "\n"


def _cells(memories: Sequence[Memory]) -> tuple[str, ...]:
    alone = Spread.of([each.alone for each in memories])
    growths = [[each.idle - each.alone, each.used - each.alone, each.left - each.alone] for each in memories]
    return (f"{alone.median:.0f}", *(str(Spread.of(growth)) for growth in zip(*growths, strict=True)))


async def measure_server(server: ServerContender, connections: int) -> Memory:
    """Open connections to a server that has none, use them and close them.

    Raises:
        TimeoutError: a connection was not made, or the server did not close it, within 30 s.
        grpc.aio.AioRpcError: a request was not answered.
    """
    async with _open(server, _FIRST) as channels:
        await _ask_over_each(channels, server)
    alone = resident_mib(server.pid)
    async with _open(server, connections) as channels:
        idle = resident_mib(server.pid)
        await _ask_over_each(channels, server)
        used = resident_mib(server.pid)
    return Memory(alone, idle, used, left=resident_mib(server.pid))


@asynccontextmanager
async def _open(server: ServerContender, connections: int) -> AsyncIterator[list[grpc.aio.Channel]]:
    """Open so many connections; when the block ends they are closed, by the server too."""
    process = psutil.Process(server.pid)
    before = process.num_fds()
    async with AsyncExitStack() as stack:
        channels: list[grpc.aio.Channel] = []
        for _ in range(connections):
            channel = grpc.aio.insecure_channel(server.address, _OWN_CONNECTION)
            channels.append(await stack.enter_async_context(channel))
            await asyncio.wait_for(channel.channel_ready(), _TIMEOUT_S)
        yield channels
    async with asyncio.timeout(_TIMEOUT_S):
        while process.num_fds() > before:  # noqa: ASYNC110 - another process tells no events
            await asyncio.sleep(_POLL_S)


async def _ask_over_each(channels: Sequence[grpc.aio.Channel], server: ServerContender) -> None:
    request = _request(server)
    for channel in channels:
        await service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(request, timeout=_TIMEOUT_S)


def _request(server: ServerContender) -> pb.ModelInferRequest:
    tensor = MODELS[server.model].signatures[_SIGNATURE].input
    values = make_batch(tensor, 1)
    request = pb.ModelInferRequest(model_name=server.model, raw_input_contents=[values.tobytes()])
    request.inputs.add(name=tensor.name, datatype=tensor.datatype, shape=values.shape)
    request.parameters["signature"].string_param = _SIGNATURE
    return request


def resident_mib(pid: int) -> float:
    """Return how much memory a process and its children hold, in MiB."""
    root = psutil.Process(pid)
    return sum(process.memory_info().rss for process in (root, *root.children(recursive=True))) / 2**20


def _allow_files() -> None:
    """Let this process, and those that it starts, have as many connections as the system lets them have."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
