"""Weights that are leased together while a module runs, and passes over the model."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, Optional, Protocol

import torch

from ... import _core, errors
from ._changes import Changes
from ._slots import Slot, refuse_copy, request_of


class Scope(Protocol):
    """Scope that is open while a module's forward runs. ``entry`` is an object for each run.

    ``leave`` may come again, and where ``enter`` has raised: an interrupt ends either anywhere.
    ``done``: the forward has returned.
    """

    def enter(self, entry: object) -> None: ...
    def leave(self, entry: object, done: bool = False) -> None: ...


class Forward:
    """The forward of a module within a scope. A hook would not leave the scope at Ctrl-C."""

    def __init__(self, forward: Callable[..., Any], scope: Scope) -> None:
        functools.update_wrapper(self, forward)
        self._forward = forward
        self._scope: Optional[Scope] = scope

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        scope = self._scope
        if scope is None:
            return self._forward(*args, **kwargs)
        entry, done = object(), False
        try:
            scope.enter(entry)
            result = self._forward(*args, **kwargs)
            done = True
            return result
        finally:
            try:
                scope.leave(entry, done)
            except KeyboardInterrupt:
                scope.leave(entry)
                raise

    def end(self) -> None:
        """Has later calls run the forward alone: somebody may have wrapped this object."""
        self._scope = None

    def restore(self, module: torch.nn.Module) -> None:
        """Makes the forward that of ``module`` again."""
        del module.__dict__["forward"]
        if module.forward != self._forward:  # the forward is not that of the class
            module.forward = self._forward

    def __reduce__(self) -> NoReturn:
        refuse_copy()


class Room:
    """Frames of dram for the units that one thread has entered. Two that do not fit would wait for
    ever, the inner one for the lease of the outer one.
    """

    def __init__(self, page_bytes: int, budget_bytes: int) -> None:
        self.page_bytes = page_bytes
        self.budget_bytes = budget_bytes // page_bytes * page_bytes
        # Pages that are always leased.
        self.held: set[int] = set()
        self._local = threading.local()

    def bytes_of(self, units: Iterable["Unit"]) -> int:
        """Bytes of the pages of several units, with those that are always leased."""
        return len(self.held.union(*(unit.pages for unit in units))) * self.page_bytes

    def enter(self, entry: object, unit: "Unit") -> None:
        """Notes a unit that the thread enters. Raises TierFull."""
        entered = self._entered()
        units = [*entered.values(), unit]
        if entered and self.bytes_of(units) > self.budget_bytes:
            raise errors.TierFull(
                f"'{unit.name}' runs within '{units[-2].name}', and dram is {self.budget_bytes} "
                f"bytes: dram={self.bytes_of(units)} is the least for both"
            )
        entered[entry] = unit

    def leave(self, entry: object) -> None:
        """Forgets a unit that the thread has entered."""
        self._entered().pop(entry, None)

    def _entered(self) -> dict[object, "Unit"]:
        entered: dict[object, Unit] = self._local.__dict__.setdefault("entered", {})
        return entered


class Unit:
    """Weights that are leased at once while a module runs. Threads: any, they share the lease."""

    def __init__(self, session: _core.Session, name: str, slots: list[Slot], room: Room) -> None:
        self.name = name
        self.entries = 0
        self.stall_seconds = 0.0
        # Units that are likely to run soon, whose weights are asked for meanwhile.
        self.then: list[Unit] = []
        # Ops after which the unit is likely to run again, or 0. Weights of units that run sooner stay.
        self.again_after = 0
        self._session = session
        self._slots = [slot for slot in slots
                       if not slot.by_expert and slot.weight.tensor is not None]
        self._fused = [slot for slot in self._slots if slot.hidden is not None]
        self._requests = [request_of(slot.weight) for slot in self._slots]
        self._room = room
        self.pages = self._pages(room.page_bytes)
        # A thread that leases tells the others at the end. None has the lock while it waits for pages.
        self._changes = Changes()
        self._leasing: Optional[object] = None  # the entry that leases for all
        self._inside: set[object] = set()
        self._op: Optional[_core.Op] = None
        self._held: list[_core.HeldLease] = []

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return sum(slot.weight.nbytes for slot in self._slots)

    def _pages(self, page_bytes: int) -> set[int]:
        """Pages of the weights, by their addresses."""
        found: set[int] = set()
        for slot in self._slots:
            first, last = slot.address, slot.address + slot.weight.nbytes - 1
            found.update(range(first // page_bytes, last // page_bytes + 1))
        return found

    @property
    def running(self) -> bool:
        """Whether a module of the unit runs."""
        return bool(self._inside)

    def enter(self, entry: object, before: Optional["Leaving"] = None) -> None:
        """Leases the weights, unless they are leased. Raises as ``Runtime.lease``.

        before
            The unit that the entry leaves with this. Its leases go with the request, so that the core
            thread, which may have to wait for a processor, wakes once for both.
        """
        leaving = before or Leaving(self)
        try:
            if before is not None:
                before.unit.leave(entry, leases=before.leases)
            self._room.enter(entry, self)
            if self._is_to_lease(entry, leaving):
                self._lease(None, leaving.leases)
                with self._changes.lock:
                    self._inside.add(entry)
        finally:
            with self._changes.lock:
                self._end_leasing(entry)
            leaving.give_back()

    def _is_to_lease(self, entry: object, leaving: "Leaving") -> bool:
        """Whether the entry is to lease the weights; else they are leased, and it is inside."""
        while True:
            with self._changes.lock:
                if self._leasing is None:
                    if not self._inside:
                        self._leasing = entry
                        return True
                    self._inside.add(entry)
                    return False
                ended = self._changes.next()
            leaving.give_back()  # the other thread may wait for their frames
            ended.acquire()

    def _end_leasing(self, entry: object) -> None:
        if self._leasing is entry:
            self._changes.tell()  # first: after an interrupt the next call tells again
            self._leasing = None

    def leave(self, entry: object, done: bool = False,
              leases: Optional[list[_core.HeldLease]] = None) -> None:
        """Ends the lease with the last one that has entered. ``leases`` gets what the caller gives
        back instead.
        """
        self._room.leave(entry)
        with self._changes.lock:
            self._inside.discard(entry)
            self._end_leasing(entry)
            if self._inside or self._leasing is not None:
                return
            if leases is not None and self.again_after == 0:
                leases += self._held
                self._held = []
            self.release()
            if self.again_after > 0:
                self._session.prefetch(self._requests, self.again_after)

    def hold(self) -> None:
        """Leases the weights until ``release``. Raises as ``Runtime.lease``."""
        self._lease("held", [])

    def _lease(self, lane: Optional[str], before: list[_core.HeldLease]) -> None:
        for slot in self._slots:
            slot.refuse_moved()
        begin = time.perf_counter()
        self._op = _core.Op(self._session, self.name, lane)
        self._held = self._op.acquire(self._requests, None, before)
        for slot in self._fused:
            slot.use(self)
        self.stall_seconds += time.perf_counter() - begin
        self.entries += 1
        for unit in self.then:
            self._session.prefetch(unit._requests, 0)

    def release(self) -> None:
        """Ends the lease, or what there is of it."""
        for slot in self._fused:
            slot.leave(self)
        while self._held:
            self._held.pop().release()
        if self._op is not None:
            self._op.end()
            self._op = None


@dataclasses.dataclass
class Leaving:
    """A unit that an entry leaves for another one, and leases on their way from there."""

    unit: Unit
    leases: list[_core.HeldLease] = dataclasses.field(default_factory=list)

    def give_back(self) -> None:
        """Gives back what has not been handed over. An interrupt may end it: call it again."""
        while self.leases:
            self.leases.pop().release()
