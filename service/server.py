"""The life of the server in reading order: bind, load, warm up, ready, serve, drain, unload."""

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from dataclasses import replace
from pathlib import Path

import service
from protos.model_config_pb2 import ModelConfig
from service.data_plane import DataPlane
from service.errors import LoadError
from service.layouts import ModelSource, find_models
from service.loading import configure_runtime, load_version
from service.model_version import ModelVersion
from service.repository import Repository
from service.servicer import Servicer
from service.settings import Settings
from service.shared_memory import Regions
from service.shared_memory_rpcs import SharedMemoryRpcs
from service.transports.channel_options import channel_options
from service.transports.grpcio import GrpcioTransport
from service.transports.health import Health

# While a version loads, Python code holds the interpreter for long; requests get their turn this often.
_SWITCH_INTERVAL_S = 0.001

logger = logging.getLogger(__name__)


class Server:
    """One server process: its models, its transport, its state. Runs in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._repository = Repository(self._load_version)
        regions = Regions(enabled=settings.allow_client_shm, allow_remote=settings.allow_remote_shared_memory)
        self._servicer = Servicer(
            self._repository,
            DataPlane(self._repository),
            name=settings.server_id,
            version=service.__version__,
            is_ready=self._is_ready,
            regions=regions,
            further=[SharedMemoryRpcs(regions)],
        )
        self._health = Health()
        self._loaded = False
        self._draining = False
        self._signals = 0
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def _is_ready(self) -> bool:
        return self._loaded and not self._draining and self._repository.every_model_is_ready()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then finish what was taken.

        Raises:
            LoadError: there is nothing to serve, or a model failed to load and ``exit_on_error`` is set.
            OSError: an address cannot be bound.
        """
        sources = find_sources(self._settings)
        for source in sources:
            self._repository.add(source)
        configure_runtime(self._repository.configurations(), self._settings)
        transport = GrpcioTransport(
            self._servicer, self._health, self._settings.grpc_targets(), channel_options(self._settings)
        )
        self._handle_signals()
        self._health.set_ready(ready=False)
        self._health.set_live()
        await transport.start()
        for address in transport.addresses:
            logger.info("listening for gRPC at %s", address)
        try:
            if await self._load(sources):
                await self._stop.wait()
        finally:
            await self._shut_down(transport)

    def _handle_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        """The first signal starts the drain, a second one cuts it short."""
        if self._stop.is_set():
            logger.warning("%s again: no longer waiting", number.name)
            self._hurry.set()
        else:
            logger.info("%s: draining", number.name)
            self._stop.set()

    async def _load(self, sources: list[ModelSource]) -> bool:
        """Load every model; return whether the server goes on."""
        interval = sys.getswitchinterval()
        sys.setswitchinterval(_SWITCH_INTERVAL_S)
        problems: list[str] = []
        for source in sources:
            if self._stop.is_set():
                return False
            problems += await asyncio.to_thread(self._repository.load, source.name)
            self._health.set_model_ready(source.name, ready=bool(self._repository.ready_versions(source.name)))
        sys.setswitchinterval(interval)
        if problems and self._settings.exit_on_error:
            raise LoadError("; ".join(problems))
        # What is loaded stays for long: a full collection need not walk it again and again.
        gc.collect()
        gc.freeze()
        self._loaded = True
        self._health.set_ready(ready=self._is_ready())
        logger.info("ready" if self._is_ready() else "serving, but not ready: a model is unavailable")
        return True

    def _load_version(self, name: str, version: int, directory: Path, config: ModelConfig) -> ModelVersion:
        return load_version(name, version, directory, config, self._settings)

    async def _shut_down(self, transport: GrpcioTransport) -> None:
        self._draining = True
        self._health.set_ready(ready=False)
        if self._loaded:
            await self._wait_or_hurry(self._settings.drain_delay)
        grace_s = 0.0 if self._hurry.is_set() else self._settings.drain_timeout
        stopping = asyncio.create_task(transport.stop(grace_s))
        hurrying = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({stopping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await transport.stop(0.0)
        hurrying.cancel()
        await stopping
        await asyncio.to_thread(self._repository.close, grace_s)
        logger.info("stopped")

    async def _wait_or_hurry(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)


def find_sources(settings: Settings) -> list[ModelSource]:
    """Return the models that the options name.

    Raises:
        LoadError: an option names nothing that can be served, or there is no option.
    """
    sources = [source for path in settings.model_repository for source in find_models(path)]
    for option in settings.model:
        name, separator, path = option.partition("=")
        if not (name and separator and path):
            raise LoadError(f"--model {option}: expected NAME=PATH")
        sources.append(_single_model(name, Path(path)))
    if not sources:
        raise LoadError("nothing to serve: give the path of a SavedModel or of a model repository")
    return sources


def _single_model(name: str, path: Path) -> ModelSource:
    found = find_models(path)
    if len(found) != 1:
        raise LoadError(f"--model {name}={path}: holds {len(found)} models; expected the directory of one")
    return replace(found[0], name=name, renamed=True)
