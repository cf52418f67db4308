"""What shows a running server to the outside: HTTP for probes and Prometheus, a port for probes alone, a watchdog."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import service
from service.allocator import FreeMemory
from service.data_plane import DataPlane
from service.glibc import GlibcHeap
from service.http.pages import ServerPages
from service.http.port import HttpPort
from service.metrics.collectors import make_registry
from service.metrics.exposition import render
from service.repository import Repository
from service.settings import Settings
from service.status_page.offer import is_offered, may_try
from service.status_page.pages import TRIAL_PATH, StatusPages
from service.status_page.trial import Trial
from service.transports.health import Health
from service.transports.health_server import HealthServer
from service.watchdog import Watchdog, stuck_runs

Problems: TypeAlias = Callable[[float], Sequence[str]]
"""Returns what is wrong with something, a line each, given for how many seconds it may do nothing; 0 means any."""

_LONGEST_PERIOD_S: Final = 5.0
_LOOKS_PER_TIMEOUT: Final = 4

logger = logging.getLogger(__name__)


class Monitor:
    """Belongs to the event loop that runs the server; ``is_live`` may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        health: Health,
        *,
        data_plane: DataPlane,
        is_ready: Callable[[], bool],
    ) -> None:
        """Open nothing yet.

        Args:
            settings: of the server.
            repository: whose models are told of and watched.
            health: is told whether the server is live.
            data_plane: whose limits are told of; the status page tries signatures on it.
            is_ready: whether the server takes requests.
        """
        self._settings: Final = settings
        self._repository: Final = repository
        self._health: Final = health
        self._data_plane: Final = data_plane
        self._is_ready: Final = is_ready
        self._is_live = True
        self._beat_at = time.monotonic()

    def is_live(self) -> bool:
        """Whether the process and its workers are alive."""
        return self._is_live

    @contextlib.contextmanager
    def running(self, addresses: Sequence[str] = (), problems: Problems = lambda _: ()) -> Iterator[None]:
        """Show the server during the block.

        Args:
            addresses: where it takes gRPC calls.
            problems: what the transport finds wrong, see ``Transport.problems``.

        Raises:
            OSError: an address cannot be bound.
        """
        self._health.set_live(live=True)
        with contextlib.ExitStack() as opened:
            self._open_ports(opened, addresses)
            opened.enter_context(contextlib.closing(self._watch(asyncio.get_running_loop(), problems)))
            yield

    def _open_ports(self, opened: contextlib.ExitStack, addresses: Sequence[str]) -> None:
        settings = self._settings
        pages = self._pages(addresses)
        if settings.allow_metrics:
            http = self._open_http(pages)
            opened.enter_context(contextlib.closing(http))
            logger.info("listening for HTTP at %s", http.address)
        if settings.health_address is not None:
            server = HealthServer()
            opened.enter_context(contextlib.closing(server))
            self._health.follow(server.set)
            port = HttpPort(settings.health_address, settings.health_port, pages, server.path)
            opened.enter_context(contextlib.closing(port))
            logger.info("listening for probes at %s", port.address)

    def _open_http(self, pages: ServerPages) -> HttpPort:
        settings = self._settings
        address = settings.metrics_address, settings.metrics_port
        if not is_offered(settings):
            return HttpPort(*address, pages)
        forms = {TRIAL_PATH: Trial(self._repository, self._data_plane)} if may_try(settings) else {}
        shown = StatusPages(pages, self._repository, self._is_ready, has_trial=bool(forms))
        return HttpPort(*address, shown, forms=forms)

    def _pages(self, addresses: Sequence[str]) -> ServerPages:
        registry = make_registry(self._repository, service.__version__, self._data_plane.admission, addresses)
        return ServerPages(
            is_live=self.is_live,
            is_ready=self._is_ready,
            is_model_ready=self._repository.is_ready,
            metrics=partial(render, registry) if self._settings.allow_metrics else None,
        )

    def _watch(self, loop: asyncio.AbstractEventLoop, transport_problems: Problems) -> Watchdog:
        timeout_s = self._settings.stuck_run_timeout
        period_s = min(_LONGEST_PERIOD_S, timeout_s / _LOOKS_PER_TIMEOUT) if timeout_s else _LONGEST_PERIOD_S
        self._beat_at = time.monotonic()
        free_memory = FreeMemory(GlibcHeap.here(), time.monotonic(), time.process_time())

        def look() -> list[str]:
            loop.call_soon_threadsafe(self._beat)
            free_memory.look(time.monotonic(), time.process_time())
            problems = [*stuck_runs(self._repository.loaded_versions(), timeout_s), *transport_problems(timeout_s)]
            if timeout_s and time.monotonic() - self._beat_at > timeout_s + period_s:
                problems.append(f"the thread that takes calls does nothing for more than {timeout_s:g} s")
            return problems

        return Watchdog(look, partial(self._tell, loop), period_s)

    def _beat(self) -> None:
        self._beat_at = time.monotonic()

    def _tell(self, loop: asyncio.AbstractEventLoop, live: bool) -> None:  # noqa: FBT001 - the watchdog's callback
        self._is_live = live
        loop.call_soon_threadsafe(partial(self._health.set_live, live=live))
