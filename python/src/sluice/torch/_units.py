"""Weights that are leased together while a module runs, and passes over the model."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Protocol

import torch

from .. import _core, errors

if TYPE_CHECKING:
    from .._weights import Weight


@dataclasses.dataclass(eq=False)
class Slot:
    """A parameter of the model, and the weight that it shows while the model streams."""

    names: list[str]
    places: list[tuple[torch.nn.Module, str]]
    original: torch.nn.Parameter
    weight: Weight = dataclasses.field(init=False)
    shown: Optional[torch.nn.Parameter] = None
    address: int = 0

    def show(self, view: torch.Tensor) -> None:
        """Makes the parameter that shows the weight."""
        self.shown = torch.nn.Parameter(view, requires_grad=False)
        self.shown.__dict__.update(self.original.__dict__)
        self.address = self.shown.data_ptr()

    def forget(self) -> None:
        """Gives the memory of the original back; what is left of it is on meta."""
        original = self.original
        self.original = torch.nn.Parameter(
            torch.empty_like(original, device="meta"), requires_grad=original.requires_grad
        )
        self.original.__dict__.update(original.__dict__)

    def end(self) -> None:
        """Gives the weight's memory back."""
        self.shown = None

    def put(self, parameter: Optional[torch.nn.Parameter]) -> None:
        """Makes ``parameter`` that of every module that has this one."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def refuse_moved(self) -> None:
        """Raises FailedPrecondition unless the modules compute on the weight's memory."""
        same = all(module._parameters.get(name) is self.shown for module, name in self.places)
        if not same or self.shown is None or self.shown.data_ptr() != self.address:
            raise errors.FailedPrecondition(
                f"parameter '{self.names[0]}' has been moved or replaced while the model streams "
                "(model.to(), half(), load_state_dict(assign=True)): close the stream first"
            )


class Scope(Protocol):
    """What is open while a module's forward runs."""

    def enter(self) -> None: ...
    def leave(self) -> None: ...


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
        scope.enter()
        try:
            return self._forward(*args, **kwargs)
        finally:
            scope.leave()

    def end(self) -> None:
        """Has later calls run the forward alone: somebody may have wrapped this object."""
        self._scope = None

    def restore(self, module: torch.nn.Module) -> None:
        """Makes the forward that of ``module`` again."""
        del module.__dict__["forward"]
        if module.forward != self._forward:  # not that of the class
            module.forward = self._forward

    def __reduce__(self) -> NoReturn:
        raise errors.InvalidArgument(
            "a model that streams cannot be copied or pickled: close the stream first, or send "
            "model.state_dict()"
        )


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

    def enter(self, unit: "Unit") -> None:
        """Notes a unit that the thread enters. Raises TierFull."""
        entered = self._local.__dict__.setdefault("entered", [])
        if entered and self.bytes_of([*entered, unit]) > self.budget_bytes:
            raise errors.TierFull(
                f"'{unit.name}' runs within '{entered[-1].name}', and dram is {self.budget_bytes} "
                f"bytes: dram={self.bytes_of([*entered, unit])} is the least for both"
            )
        entered.append(unit)

    def leave(self) -> None:
        """Forgets the unit that the thread entered last."""
        self._local.entered.pop()


class Unit:
    """Weights that are leased at once while a module runs. Threads: any, they share the lease."""

    def __init__(self, session: _core.Session, name: str, slots: list[Slot], room: Room) -> None:
        self.name = name
        self.entries = 0
        self.stall_seconds = 0.0
        # The unit that is likely to run next, whose weights are asked for meanwhile.
        self.next: Optional[Unit] = None
        self._session = session
        self._slots = [slot for slot in slots if slot.weight.tensor is not None]
        self._requests = [_request(slot.weight) for slot in self._slots]
        self._room = room
        self.pages = self._pages(room.page_bytes)
        self._lock = threading.Lock()
        self._depth = 0
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
        return self._depth > 0

    def enter(self) -> None:
        """Leases the weights, unless they are leased. Raises as ``Runtime.lease``."""
        self._room.enter(self)
        try:
            with self._lock:
                if self._depth == 0:
                    self._lease(None)
                self._depth += 1
        except BaseException:
            self._room.leave()
            raise

    def leave(self) -> None:
        """Ends the lease with the last one that has entered."""
        self._room.leave()
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self.release()

    def hold(self) -> None:
        """Leases the weights until ``release``. Raises as ``Runtime.lease``."""
        self._lease("held")

    def _lease(self, lane: Optional[str]) -> None:
        for slot in self._slots:
            slot.refuse_moved()
        op = _core.Op(self._session, self.name, lane)
        begin = time.perf_counter()
        try:
            self._held = op.acquire(self._requests, None)
        except BaseException:
            op.end()
            raise
        self._op = op
        self.stall_seconds += time.perf_counter() - begin
        self.entries += 1
        if self.next is not None:
            self._session.prefetch(self.next._requests)

    def release(self) -> None:
        """Ends the lease, if there is one."""
        held, self._held = self._held, []
        for lease in held:
            lease.release()
        op, self._op = self._op, None
        if op is not None:
            op.end()


class Passes:
    """Passes over the model, each an iteration of the runtime, which lasts to the next one's begin:
    so the first units of the next pass come while the last ones of this one compute.
    """

    def __init__(self, session: _core.Session, at_begin: Callable[[], None]) -> None:
        self.count = 0
        self.seconds = 0.0
        self.running = 0
        self._session = session
        self._at_begin = at_begin
        self._local = threading.local()

    def through(self, name: str) -> "Entrance":
        """What a module's forward enters, by whose name passes that begin there are recorded."""
        return Entrance(self, name)

    def enter(self, name: str) -> None:
        """Begins a pass, unless this thread is in one."""
        depth = getattr(self._local, "depth", 0)
        if depth == 0:
            self._at_begin()
            self._session.begin_iteration(f"pass {name}".rstrip())
            self.count += 1
            self.running += 1
            self._local.begin = time.perf_counter()
        self._local.depth = depth + 1

    def leave(self) -> None:
        """Ends what ``enter`` began."""
        self._local.depth -= 1
        if self._local.depth == 0:
            self.running -= 1
            self.seconds += time.perf_counter() - self._local.begin


class Entrance:
    """A module in which a pass may begin."""

    def __init__(self, passes: Passes, name: str) -> None:
        self._passes = passes
        self._name = name

    def enter(self) -> None:
        """As ``Passes.enter``."""
        self._passes.enter(self._name)

    def leave(self) -> None:
        """As ``Passes.leave``."""
        self._passes.leave()


def _request(weight: Weight) -> _core._Request:
    assert weight.tensor is not None
    return (weight.tensor._state, 0, weight.nbytes, "r", None)
