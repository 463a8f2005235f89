"""Weights that are leased together while a module runs, and passes over the model."""

from __future__ import annotations

import dataclasses
import functools
import threading
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Optional, Protocol

import torch

from ... import _core, errors

if TYPE_CHECKING:
    from ..._weights import Weight, Weights


@dataclasses.dataclass(eq=False)
class Slot:
    """A parameter of the model, and the weight that it shows while the model streams."""

    names: list[str]
    places: list[tuple[torch.nn.Module, str]]
    original: torch.nn.Parameter
    # Weights of the files whose bytes, one behind the other, are the parameter's.
    parts: list[Weight] = dataclasses.field(init=False)
    # The weight that it shows, unless experts lease its rows.
    weight: Weight = dataclasses.field(init=False)
    by_expert: bool = False
    shown: Optional[torch.nn.Parameter] = None
    address: int = 0
    # What is there instead while nothing is leased, where no file has the bytes as they are.
    hidden: Optional[torch.nn.Parameter] = None

    @property
    def idle(self) -> Optional[torch.nn.Parameter]:
        """The parameter of the modules outside a lease."""
        return self.shown if self.hidden is None else self.hidden

    def show(self, view: torch.Tensor) -> None:
        """Makes the parameter that shows the weight."""
        self.shown = self._parameter(view)
        self.address = self.shown.data_ptr()

    def hide(self) -> None:
        """Has the parameter be on meta outside a lease."""
        self.hidden = self._parameter(torch.empty_like(self.original, device="meta"))

    def _parameter(self, view: torch.Tensor) -> torch.nn.Parameter:
        parameter = torch.nn.Parameter(view, requires_grad=False)
        parameter.__dict__.update(self.original.__dict__)
        return parameter

    def forget(self) -> None:
        """Gives the memory of the original back; what is left of it is on meta."""
        original = self.original
        self.original = torch.nn.Parameter(
            torch.empty_like(original, device="meta"), requires_grad=original.requires_grad
        )
        self.original.__dict__.update(original.__dict__)

    def end(self) -> None:
        """Gives the weight's memory back."""
        self.shown = self.hidden = None

    def put(self, parameter: Optional[torch.nn.Parameter]) -> None:
        """Makes ``parameter`` that of every module that has this one."""
        for module, name in self.places:
            module._parameters[name] = parameter

    def refuse_moved(self) -> None:
        """Raises FailedPrecondition unless the modules compute on the weight's memory."""
        idle = self.idle
        same = all(module._parameters.get(name) is idle for module, name in self.places)
        at = self.address if self.hidden is None else 0
        moved = idle is None or idle.data_ptr() != at or idle.dtype != self.original.dtype
        if not same or moved:
            raise errors.FailedPrecondition(
                f"parameter '{self.names[0]}' has been moved or replaced while the model streams "
                "(model.to(), half(), load_state_dict(assign=True)): close the stream first"
            )


class Scope(Protocol):
    """What is open while a module's forward runs. ``entry`` is an object for each such run.

    ``leave`` may come again, and where ``enter`` has raised: an interrupt ends either anywhere.
    """

    def enter(self, entry: object) -> None: ...
    def leave(self, entry: object) -> None: ...


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
        entry = object()
        try:
            scope.enter(entry)
            return self._forward(*args, **kwargs)
        finally:
            try:
                scope.leave(entry)
            except KeyboardInterrupt:
                scope.leave(entry)
                raise

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
        # The unit that is likely to run next, whose weights are asked for meanwhile.
        self.next: Optional[Unit] = None
        self._session = session
        self._slots = [slot for slot in slots
                       if not slot.by_expert and slot.weight.tensor is not None]
        self._fused = [slot for slot in self._slots if slot.hidden is not None]
        self._requests = [request_of(slot.weight) for slot in self._slots]
        self._room = room
        self.pages = self._pages(room.page_bytes)
        self._lock = threading.Lock()
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

    def enter(self, entry: object) -> None:
        """Leases the weights, unless they are leased. Raises as ``Runtime.lease``."""
        self._room.enter(entry, self)
        with self._lock:
            if not self._inside:
                self._lease(None)
            self._inside.add(entry)

    def leave(self, entry: object) -> None:
        """Ends the lease with the last one that has entered."""
        self._room.leave(entry)
        with self._lock:
            self._inside.discard(entry)
            if not self._inside:
                self.release()

    def hold(self) -> None:
        """Leases the weights until ``release``. Raises as ``Runtime.lease``."""
        self._lease("held")

    def _lease(self, lane: Optional[str]) -> None:
        for slot in self._slots:
            slot.refuse_moved()
        begin = time.perf_counter()
        self._op = _core.Op(self._session, self.name, lane)
        self._held = self._op.acquire(self._requests, None)
        for slot in self._fused:
            slot.put(slot.shown)
        self.stall_seconds += time.perf_counter() - begin
        self.entries += 1
        if self.next is not None:
            self._session.prefetch(self.next._requests)

    def release(self) -> None:
        """Ends the lease, or what there is of it."""
        for slot in self._fused:
            slot.put(slot.hidden)
        while self._held:
            self._held.pop().release()
        if self._op is not None:
            self._op.end()
            self._op = None


def request_of(weight: Weight, first: int = 0, nbytes: Optional[int] = None) -> _core._Request:
    """The lease of a weight's bytes, from ``first`` on."""
    assert weight.tensor is not None
    return (weight.tensor._state, first, weight.nbytes if nbytes is None else nbytes, "r", None)


def view_of(weight: Weight) -> torch.Tensor:
    """A torch tensor that shows a weight. Raises InvalidArgument for one at an odd address."""
    view = weight.torch()
    if view.data_ptr() % view.element_size() != 0:
        raise errors.InvalidArgument(
            f"weight '{weight.name}' of {weight.file} begins within an element "
            f"({view.dtype}): write the file again with safetensors"
        )
    return view


def show(slot: Slot, weights: Weights) -> None:
    """Makes the parameters of a slot. Weights of the files that they do not show are not kept."""
    parts, slot.parts = slot.parts, []
    if slot.by_expert:
        slot.hide()
        return
    slot.weight = parts[0]
    if len(parts) > 1:
        slot.weight = weights._fused(slot.names[0], tuple(slot.original.shape), parts)
        slot.hide()
    slot.show(view_of(slot.weight))
