"""The life of the server in reading order: bind, load, warm up, ready, serve, drain, unload."""

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import service
from protos.model_config_pb2 import ModelConfig
from service.access import make_access
from service.admission import admission_from
from service.banner import log_banner
from service.data_plane import DataPlane
from service.errors import LoadError
from service.layouts import ModelSource
from service.loading import VersionLoader, configure_runtime, runtime_in_force
from service.log_rpcs import LogRpcs
from service.memory_limit import log_memory
from service.model_control import ModelControl
from service.model_places import ModelPlaces
from service.model_version import ModelVersion
from service.monitor import Monitor
from service.repository import Repository
from service.repository_poller import RepositoryPoller
from service.repository_rpcs import RepositoryRpcs
from service.servicer import Servicer
from service.settings import ControlMode, Settings
from service.shared_memory import Regions
from service.shared_memory_rpcs import SharedMemoryRpcs
from service.telemetry import tracer_from
from service.trace_rpcs import TraceRpcs
from service.trace_settings import TraceBook
from service.transports.choice import Transport, make_transport
from service.transports.health import Health
from service.uploads import Uploads

# While a version loads, Python code holds the interpreter for long; requests get their turn this often.
_SWITCH_INTERVAL_S = 0.001

_CLOSE_S = 5.0
"""How long freeing the models may take beyond the drain timeout."""

_TRACES_S = 1.0
"""How long the last traces may take to be made, and then to be sent."""

logger = logging.getLogger(__name__)


class Server:
    """One server process: its models, its transport, its state. Runs in one event loop."""

    def __init__(self, settings: Settings) -> None:
        """Prepare to run.

        Raises:
            LoadError: a file that the settings name cannot be used, or they name nothing to serve.
        """
        self._settings = settings
        self._repository = Repository(self._load_version, on_change=self._tell_health, policy=settings.reload_policy)
        self._loader = VersionLoader(settings)
        self._places = ModelPlaces(
            settings.model_repository,
            settings.model,
            listing=settings.model_config_file,
            config_name=settings.model_config_name,
        )
        self._uploads = Uploads()
        self._control = ModelControl(
            self._repository,
            self._places,
            settings.model_control_mode,
            self._uploads if settings.allow_file_override else None,
        )
        self._poller = RepositoryPoller(
            self._repository, self._places, settings.repository_poll_secs, settings.repository_quiet_secs
        )
        self._health = Health()
        data_plane = DataPlane(self._repository, admission_from(settings), settings.slow_request_ms)
        self._monitor = Monitor(
            settings, self._repository, self._health, data_plane=data_plane, is_ready=self._is_ready
        )
        self._tracer = tracer_from(settings)
        regions = Regions(enabled=settings.allow_client_shm, allow_remote=settings.allow_remote_shared_memory)
        self._servicer = Servicer(
            self._repository,
            data_plane,
            name=settings.server_id,
            version=service.__version__,
            is_ready=self._is_ready,
            is_live=self._monitor.is_live,
            regions=regions,
            further=[
                RepositoryRpcs(self._control),
                SharedMemoryRpcs(regions),
                TraceRpcs(self._repository, TraceBook()),
                LogRpcs(settings.log_options()),
            ],
            tracer=self._tracer,
        )
        self._access = make_access(settings.token_file, settings.admin_token_file, settings.grpc_restricted_protocol)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._loaded = False
        self._loading: asyncio.Future[list[str]] | None = None
        self._draining = False
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()

    def _is_ready(self) -> bool:
        return self._loaded and not self._draining and self._models_are_ready()

    def _models_are_ready(self) -> bool:
        if self._settings.strict_readiness:
            return self._repository.every_version_is_ready()
        return self._repository.every_model_is_ready()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, then finish what was taken.

        Raises:
            LoadError: there is nothing to serve, or a model failed to load and ``exit_on_error`` is set.
            OSError: an address cannot be bound.
        """
        self._loop = asyncio.get_running_loop()
        self._handle_signals()
        sources = self._sources()
        for source in sources:
            self._repository.add(source)
        configure_runtime(self._repository.configurations(), self._settings)
        log_memory()
        transport = make_transport(self._servicer, self._health, self._settings, self._access)
        with self._monitor.running(transport.addresses, transport.problems):
            await self._serve(transport, sources)

    async def _serve(self, transport: Transport, sources: list[ModelSource]) -> None:
        self._health.set_ready(ready=False)
        await transport.start()
        for address in transport.addresses:
            logger.info("listening for gRPC at %s", address)
        try:
            if await self._load(sources):
                log_banner(transport.name, transport.addresses, runtime_in_force(), self._repository.loaded_versions())
                await self._stop.wait()
        finally:
            await self._shut_down(transport)

    def _sources(self) -> list[ModelSource]:
        """Return the models to load at the start.

        Raises:
            LoadError: a place that the options name, or a model to be loaded, is not there.
        """
        wanted = self._settings.load_model
        mode = self._settings.model_control_mode
        if wanted and mode is not ControlMode.EXPLICIT:
            raise LoadError("--load-model is only for --model-control-mode explicit")
        if mode is ControlMode.NONE:
            return self._places.all_models()
        if mode is ControlMode.POLL:
            return self._places.present_models()
        self._places.check()
        return [self._source(name) for name in (self._places.names() if "*" in wanted else dict.fromkeys(wanted))]

    def _source(self, name: str) -> ModelSource:
        source = self._places.find(name)
        if source is None:
            raise LoadError(f"--load-model {name}: there is no model of this name in any model repository")
        return source

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
        problems: list[str] = []
        for source in sources:
            await self._load_or_stop(source.name)
            if self._loading is None or not self._loading.done():
                return False
            problems += self._loading.result()
        if problems and self._settings.exit_on_error:
            raise LoadError("; ".join(problems))
        self._loaded = True
        self._health.set_ready(ready=self._is_ready())
        logger.info("ready" if self._is_ready() else "serving, but not ready: a model is unavailable")
        if self._settings.model_control_mode is ControlMode.POLL:
            self._poller.start()
        return True

    async def _load_or_stop(self, name: str) -> None:
        """Load a model, but no longer than until the server is told to end; what still loads then is left behind."""
        self._loading = None
        if self._stop.is_set():
            return
        self._loading = asyncio.ensure_future(asyncio.to_thread(self._repository.load, name))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait({self._loading, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()

    def _load_version(self, name: str, version: int, directory: Path, config: ModelConfig) -> ModelVersion:
        with _quick_switches():
            started = time.monotonic()
            loaded = self._loader.load(name, version, directory, config)
            loaded.load_s = time.monotonic() - started
        return loaded

    def _tell_health(self, name: str) -> None:
        """Pass on that a model may have become ready or unready; called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._set_health, name)

    def _set_health(self, name: str) -> None:
        self._health.set_model_ready(name, ready=bool(self._repository.ready_versions(name)))
        self._health.set_ready(ready=self._is_ready())

    async def _shut_down(self, transport: Transport) -> None:
        """Stop to be ready, refuse new calls, finish those taken, unload; the whole within the drain timeout."""
        self._draining = True
        self._poller.stop()
        self._health.set_ready(ready=False)
        if self._loaded:
            await self._wait_or_hurry(self._settings.drain_delay)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (0.0 if self._hurry.is_set() else self._settings.drain_timeout)
        await self._stop_transport(transport, ends_at - loop.time())
        remaining_s = 0.0 if self._hurry.is_set() else max(0.0, ends_at - loop.time())
        closing = asyncio.create_task(asyncio.to_thread(self._close_models, remaining_s))
        await asyncio.wait({closing}, timeout=remaining_s + _CLOSE_S)
        if not closing.done():
            self._uploads.close()
            _leave_running_models()
        await closing
        if self._loading is not None and not self._loading.done():
            # Python would wait for its thread, however long it takes. Nobody was promised anything of this model.
            logger.warning("a model still loads; ending without it")
            _leave(0)
        logger.info("stopped")

    async def _stop_transport(self, transport: Transport, grace_s: float) -> None:
        stopping = asyncio.create_task(transport.stop(grace_s))
        hurrying = asyncio.create_task(self._hurry.wait())
        await asyncio.wait({stopping, hurrying}, return_when=asyncio.FIRST_COMPLETED)
        hurrying.cancel()
        if not stopping.done():
            transport.abandon()
            await asyncio.wait({stopping}, timeout=_CLOSE_S)
        if not stopping.done():
            _leave_running_models()
        await stopping

    def _close_models(self, timeout_s: float) -> None:
        self._poller.close()
        self._control.close()
        self._repository.close(timeout_s)
        if self._tracer is not None:
            self._tracer.close(_TRACES_S)
        self._uploads.close()

    async def _wait_or_hurry(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurry.wait(), seconds)


@contextlib.contextmanager
def _quick_switches() -> Iterator[None]:
    """Let the threads that answer requests have their turn more often; loads come one at a time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def _leave_running_models() -> None:
    """End the process under a run or a load that does not end: neither can be stopped, and Python would wait for it."""
    logger.error("a model still runs after the drain timeout, or loads; ending without it")
    _leave(1)


def _leave(code: int) -> None:
    logging.shutdown()
    os._exit(code)
