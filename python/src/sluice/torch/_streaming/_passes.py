"""Passes over a model whose weights stream."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ... import _core


class Passes:
    """Passes over the model, each an iteration of the runtime, which lasts to the next one's begin:
    so the first units of the next pass come while the last ones of this one compute.
    """

    def __init__(self, session: _core.Session, at_begin: Callable[[], None]) -> None:
        self.count = 0
        self.seconds = 0.0
        # Time at which each pass that is under way began, by its entry.
        self._begun: dict[object, float] = {}
        self._session = session
        self._at_begin = at_begin
        self._local = threading.local()

    def through(self, name: str) -> "Entrance":
        """Scope that a module's forward enters; passes that begin there have its name."""
        return Entrance(self, name)

    @property
    def running(self) -> bool:
        """Whether a pass is under way."""
        return bool(self._begun)

    def enter(self, entry: object, name: str) -> None:
        """Begins a pass, unless this thread is in one."""
        entered = self._entered()
        if not entered:
            self._at_begin()
            self._session.begin_iteration(f"pass {name}".rstrip())
            self.count += 1
            self._begun[entry] = time.perf_counter()
        entered.add(entry)

    def leave(self, entry: object) -> None:
        """Ends what ``enter`` began."""
        self._entered().discard(entry)
        begin = self._begun.pop(entry, None)
        if begin is not None:
            self.seconds += time.perf_counter() - begin

    def _entered(self) -> set[object]:
        entered: set[object] = self._local.__dict__.setdefault("entered", set())
        return entered


class Entrance:
    """A module in which a pass may begin."""

    def __init__(self, passes: Passes, name: str) -> None:
        self._passes = passes
        self._name = name

    def enter(self, entry: object) -> None:
        """Calls ``Passes.enter``."""
        self._passes.enter(entry, self._name)

    def leave(self, entry: object, done: bool = False) -> None:
        """Calls ``Passes.leave``."""
        self._passes.leave(entry)
