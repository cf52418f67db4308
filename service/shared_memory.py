"""Memory that clients share with the server: registered regions, and the windows of them that a request names.

What a region is made of is the business of ``system_region`` and ``cuda_region``. A request copies its inputs out of
regions when it is taken, and its outputs into them before it is answered, so a client may change a region at any time:
what was checked is what is run.
"""

import resource
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from service.caller import Caller
from service.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    UnimplementedError,
)

_LONGEST_NAME: Final = 1024


class Region(Protocol):
    """Memory of a client, known by a name. Bounds are checked by whoever reads and writes."""

    @property
    def name(self) -> str:
        """The name by which requests refer to it."""
        ...

    @property
    def byte_size(self) -> int:
        """How many bytes were registered, at least one."""
        ...

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Copy bytes out of it. Raises InvalidArgumentError when the memory is no longer there."""
        ...

    def write(self, offset: int, data: memoryview) -> None:
        """Copy bytes into it. Raises InternalError when the memory is no longer there."""
        ...

    def close(self) -> None:
        """Let go of the memory; neither read nor written afterwards."""
        ...


R = TypeVar("R", bound=Region)


def _half_of_the_file_descriptors() -> int:
    """Return how many regions there may be. Each holds a descriptor; the other half is for connections and files."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit // 2


class Regions:
    """The regions that clients have registered. All methods may be called from any thread.

    A region that requests use when it is unregistered is closed by the last of them. Its name is free at once, and a
    new region of that name has nothing to do with the old one.

    Attributes:
        enabled: whether any client may use shared memory.
    """

    def __init__(self, *, enabled: bool = True, allow_remote: bool = False, max_open: int | None = None) -> None:
        """Create the registry.

        Args:
            enabled: whether clients may use shared memory at all.
            allow_remote: whether clients on other hosts may, too. A region names an object of this host's kernel.
            max_open: how many regions may be open at a time, those included that are unregistered and still in use;
                None means half as many as the process may open files.
        """
        self.enabled = enabled
        self._allow_remote = allow_remote
        self._max_open = _half_of_the_file_descriptors() if max_open is None else max_open
        self._lock = threading.Lock()
        self._by_name: dict[str, Region] = {}
        self._users: Counter[Region] = Counter()
        self._open = 0

    def __repr__(self) -> str:
        return f"Regions(registered={len(self._by_name)}, open={self._open}, in_use={len(self._users)})"

    def is_open_to(self, caller: Caller) -> bool:
        """Whether a caller may use shared memory."""
        return self.enabled and (caller.is_local or self._allow_remote)

    def check_open_to(self, caller: Caller) -> None:
        """Refuse callers that may not use shared memory.

        Raises:
            UnimplementedError: as Triton answers where its option for client shared memory is off.
        """
        if not self.enabled:
            raise UnimplementedError("client shared memory is switched off on this server (--allow-client-shm)")
        if not self.is_open_to(caller):
            raise UnimplementedError(
                "shared memory is open to clients on the server's own host only, over a loopback address or a Unix "
                "socket (--allow-remote-shared-memory true opens it to all)"
            )

    def register(self, name: str, open_region: Callable[[], Region]) -> None:
        """Add the region that ``open_region`` opens.

        Raises:
            AlreadyExistsError: the name is taken.
            InvalidArgumentError: the name is empty, which everywhere else means all regions, or too long to be kept.
            ResourceExhaustedError: too many regions are open.
        """
        if not name:
            raise InvalidArgumentError("failed to register shared memory region: its name is empty")
        if len(name) > _LONGEST_NAME:
            raise InvalidArgumentError(
                f"failed to register shared memory region: its name has {len(name)} characters; at most "
                f"{_LONGEST_NAME} are allowed"
            )
        with self._lock:
            if name in self._by_name:
                raise AlreadyExistsError(f"shared memory region '{name}' already in manager")
            if self._open >= self._max_open:
                raise ResourceExhaustedError(
                    f"failed to register shared memory region '{name}': {self._open} regions are open, the most that "
                    "this server takes. Unregister some, or raise its limit of open files (ulimit -n)"
                )
            self._by_name[name] = open_region()
            self._open += 1

    def registered(self, kind: type[R], name: str = "") -> list[R]:
        """Return the region of that kind and name, if there is one, or all of that kind for an empty name."""
        with self._lock:
            return self._find(kind, name)

    def unregister(self, kind: type[R], name: str = "") -> None:
        """Forget the region of that kind and name, or all of that kind for an empty name; unknown ones are no fault."""
        with self._lock:
            for region in self._find(kind, name):
                del self._by_name[region.name]
                if region not in self._users:
                    self._close(region)

    def _find(self, kind: type[R], name: str) -> list[R]:
        return [region for region in self._by_name.values() if isinstance(region, kind) and name in ("", region.name)]

    def lease(self, name: str) -> Region:
        """Return a region, which stays open until it is given back with ``release``.

        Raises:
            NotFoundError: no region has that name.
        """
        with self._lock:
            region = self._by_name.get(name)
            if region is None:
                raise _unknown(name)
            self._users[region] += 1
            return region

    def release(self, region: Region) -> None:
        """Give a leased region back."""
        with self._lock:
            self._users[region] -= 1
            if self._users[region]:
                return
            del self._users[region]
            if self._by_name.get(region.name) is not region:
                self._close(region)

    def _close(self, region: Region) -> None:
        self._open -= 1
        region.close()


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"Unable to find shared memory region: '{name}'")


@dataclass(frozen=True, slots=True)
class WindowName:
    """Which part of which region a tensor names.

    Attributes:
        region: the region's name.
        offset: in bytes from the region's start; as sent, so it may be negative or too large.
        byte_size: as sent, likewise.
    """

    region: str
    offset: int
    byte_size: int


@dataclass(frozen=True, slots=True)
class Window:
    """A part of a region, inside its bounds. ``len`` tells its bytes."""

    region: Region
    offset: int
    byte_size: int

    def __len__(self) -> int:
        return self.byte_size

    def read(self) -> bytes | memoryview:
        """Copy all of it out."""
        return self.region.read(self.offset, self.byte_size)

    def write(self, data: memoryview) -> None:
        """Copy data in, from its start; they must fit."""
        self.region.write(self.offset, data)


class RequestMemory:
    """The windows of one request. It keeps their regions open until ``release``.

    One thread at a time uses it; only ``abandon`` may be called from another.

    Attributes:
        outputs: by name of an output, where its data go.
        is_abandoned: whether the caller left and perhaps uses its memory for something else by now.
    """

    __slots__ = ("_leased", "_regions", "is_abandoned", "outputs")

    def __init__(self, regions: Regions | None) -> None:
        """Create it.

        Args:
            regions: where windows are looked up; None for a caller who may use none and so finds none.
        """
        self._regions = regions
        self._leased: list[Region] = []
        self.outputs: dict[str, Window] = {}
        self.is_abandoned = False

    def window(self, name: WindowName) -> Window:
        """Find a window; bounds are checked with unlimited integers.

        Raises:
            NotFoundError: no region has that name.
            InvalidArgumentError: the window leaves its region.
        """
        if self._regions is None:
            raise _unknown(name.region)
        region = self._regions.lease(name.region)
        self._leased.append(region)
        if not 0 <= name.offset < region.byte_size:
            raise InvalidArgumentError(
                f"Invalid offset for shared memory region: '{name.region}': {name.offset} is outside its "
                f"{region.byte_size} bytes"
            )
        if name.byte_size < 0 or name.offset + name.byte_size > region.byte_size:
            raise InvalidArgumentError(
                f"Invalid offset + byte size for shared memory region: '{name.region}': {name.offset} + "
                f"{name.byte_size} is outside its {region.byte_size} bytes"
            )
        return Window(region, name.offset, name.byte_size)

    def abandon(self) -> None:
        """Say that nobody waits for the outputs, so that they are not written."""
        self.is_abandoned = True

    def release(self) -> None:
        """Let go of the regions. Neither inputs nor outputs may be touched afterwards."""
        while self._leased and self._regions is not None:
            self._regions.release(self._leased.pop())


NO_MEMORY: Final = RequestMemory(None)
"""The memory of every request whose caller may use no regions."""
