"""Loaded graphs that several models may use: each is loaded once, and closed by the last who lets go of it."""

import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from service.saved_model.contents import Contents
from service.signature import Effect

if TYPE_CHECKING:
    from service.saved_model.served_graph import ServedGraph  # TensorFlow starts with the first load

User = tuple[str, int]
"""Who uses a graph: a model and the number of its version."""


class _Copy:
    """One loaded graph with its users; an empty list means that it is closed, or about to be."""

    def __init__(self, graph: "ServedGraph", contents: Contents, options: Hashable, user: User) -> None:
        self.graph: Final = graph
        self.contents: Final = contents
        self.options: Final = options
        self.loaded_for: Final = user
        self.users: Final = [user]
        self.writes: Final = any(each.effect is Effect.WRITING for each in graph.signatures.values())
        self.was_written = False

    def begins_anew_for(self, user: User) -> bool:
        """Whether a load would find the state of the files, and no run of an earlier load of this user writes later."""
        return not self.was_written and not (self.writes and user in self.users)


class Share:
    """The right of one user to one graph.

    Attributes:
        graph: must not be used after ``release``.
        loaded_for: the user that it was loaded for first.
        is_joined: whether it was there already.
    """

    def __init__(self, graphs: "SharedGraphs", copy: _Copy, user: User, *, is_joined: bool) -> None:
        self.graph: Final = copy.graph
        self.loaded_for: Final = copy.loaded_for
        self.is_joined: Final = is_joined
        self._graphs: Final = graphs
        self._copy: Final = copy
        self._user: Final = user

    def note_write(self) -> None:
        """Note that a run is about to write, so that no later load takes the graph for what the files hold."""
        self._graphs._note_write(self._copy)  # noqa: SLF001 - as below

    def release(self) -> None:
        """Let go of the graph, once; the last user's call closes it."""
        self._graphs._release(self._copy, self._user)  # noqa: SLF001 - two halves of one thing


class SharedGraphs:
    """The graphs that are loaded. May be used from any thread; loads are done one after the other.

    A load joins a graph that was read from the very same files (a link, the same path twice) with equal options; of
    directories with equal bytes only if asked to. Files count as they were when they were loaded: a load after they
    changed brings a graph of its own, while the other users go on with the old one.

    Users of one graph see the same variables. Yet every load begins with the state that the files hold: it joins no
    graph that was written to, and a model that is loaded again gets a graph of its own if one of the signatures writes.
    """

    def __init__(self, *, equal: bool = False) -> None:
        """Begin without graphs.

        Args:
            equal: whether directories with equal bytes share a graph, too; finding out reads all of their files.
        """
        self._equal: Final = equal
        self._loading: Final = threading.Lock()
        self._lock: Final = threading.Lock()
        self._copies: Final[list[_Copy]] = []

    def __repr__(self) -> str:
        with self._lock:
            return f"<SharedGraphs {[copy.users for copy in self._copies]}>"

    def take(self, path: Path, options: Hashable, user: User, load: Callable[[], "ServedGraph"]) -> Share:
        """Return the graph of a SavedModel, which ``load`` brings unless it is there.

        Raises:
            Exception: what ``load`` raises.
        """
        with self._loading:
            contents = Contents(path)
            for copy in self._candidates(options, user):
                if self._is_same(copy.contents, contents) and self._join(copy, user):
                    return Share(self, copy, user, is_joined=True)
            copy = _Copy(load(), contents, options, user)
            if contents.is_current():  # else nobody knows what was read: this graph is for its one user
                with self._lock:
                    self._copies.append(copy)
            return Share(self, copy, user, is_joined=False)

    def _candidates(self, options: Hashable, user: User) -> list[_Copy]:
        with self._lock:
            return [copy for copy in reversed(self._copies) if copy.options == options and copy.begins_anew_for(user)]

    def _is_same(self, one: Contents, other: Contents) -> bool:
        return one.is_same_files(other) or (self._equal and one.is_equal(other))

    def _join(self, copy: _Copy, user: User) -> bool:
        """Become a user of a graph; False if its last user let go of it, or it was written to, meanwhile."""
        with self._lock:
            joins = bool(copy.users) and copy.begins_anew_for(user)
            if joins:
                copy.users.append(user)
            return joins

    def _note_write(self, copy: _Copy) -> None:
        if not copy.was_written:
            with self._lock:
                copy.was_written = True

    def _release(self, copy: _Copy, user: User) -> None:
        with self._lock:
            copy.users.remove(user)
            is_last = not copy.users
            if is_last and copy in self._copies:
                self._copies.remove(copy)
        if is_last:
            copy.graph.close()
